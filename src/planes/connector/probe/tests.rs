use rstest::rstest;

use super::*;

/// An error as it comes out of the layers between: wrapped, and wrapped again.
#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer(#[source] Box<dyn StdError + Send + Sync>);

fn tls(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[rstest]
#[case::refused(io::ErrorKind::ConnectionRefused.into(), DisconnectReason::Unreachable, "refused")]
#[case::silent(io::ErrorKind::TimedOut.into(), DisconnectReason::Unreachable, "in time")]
#[case::no_route(io::ErrorKind::HostUnreachable.into(), DisconnectReason::Unreachable, "no way")]
#[case::reset(io::ErrorKind::ConnectionReset.into(), DisconnectReason::Unreachable, "broke")]
#[case::unknown_name(io::Error::other(ResolveError::Unknown), DisconnectReason::Unreachable, "not known")]
#[case::forbidden_address(io::Error::other(ResolveError::Refused), DisconnectReason::Unreachable, "may have")]
#[case::wrong_authority(
    tls(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)),
    DisconnectReason::TlsFailed,
    "authority"
)]
#[case::wrong_name(
    tls(rustls::Error::InvalidCertificate(CertificateError::NotValidForName)),
    DisconnectReason::TlsFailed,
    "name"
)]
#[case::expired(
    tls(rustls::Error::InvalidCertificate(CertificateError::Expired)),
    DisconnectReason::TlsFailed,
    "expired"
)]
#[case::no_tls(
    tls(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)),
    DisconnectReason::TlsFailed,
    "handshake"
)]
#[case::client_certificate_refused(
    tls(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)),
    DisconnectReason::Unauthorized,
    "401"
)]
#[case::nested(
    io::Error::other(io::Error::from(io::ErrorKind::ConnectionRefused)),
    DisconnectReason::Unreachable,
    "refused"
)]
fn the_cause_of_a_failure_is_found_under_its_layers(
    #[case] cause: io::Error,
    #[case] why: DisconnectReason,
    #[case] word: &str,
) {
    let error = Error::Service(Box::new(Outer(Box::new(Outer(Box::new(cause))))));
    let failure = failure_of(&error);
    assert_eq!(failure.why, why, "{}", failure.message);
    assert!(failure.message.contains(word), "{}", failure.message);
}

#[rstest]
#[case(200, None)]
#[case(401, Some(DisconnectReason::Unauthorized))]
#[case(403, Some(DisconnectReason::Forbidden))]
#[case(404, Some(DisconnectReason::NotKubernetes))]
#[case(302, Some(DisconnectReason::NotKubernetes))]
#[case(429, Some(DisconnectReason::Unhealthy))]
#[case(500, Some(DisconnectReason::Unhealthy))]
#[case(503, Some(DisconnectReason::Unhealthy))]
fn an_answer_is_judged_by_its_code(#[case] code: u16, #[case] why: Option<DisconnectReason>) {
    let status = StatusCode::from_u16(code).unwrap();
    assert_eq!(failure_of_status(status, "/version").map(|failure| failure.why), why);
}

#[test]
fn what_a_server_says_of_itself_is_cut_to_a_short_word() {
    assert_eq!(printable("v1.36.3+k3s1"), "v1.36.3+k3s1");
    assert_eq!(printable("v1\u{1b}[31m\n evil\u{202e}"), "v1[31mevil");
    assert_eq!(printable(&"x".repeat(10_000)).len(), 64);
}
