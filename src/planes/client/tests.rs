use std::time::Duration;

use futures::poll;
use rcgen::{CertificateParams, KeyPair};
use rstest::rstest;
use secrecy::SecretString;
use tokio::net::TcpListener;

use super::*;

const CANARY: &str = "canary-5f3a";

fn identity(name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn token(text: &str) -> Auth {
    Auth::Token(SecretString::from(text))
}

fn certificate((certificate, key): (String, String)) -> Auth {
    Auth::ClientCertificate {
        certificate_pem: SecretString::from(certificate),
        key_pem: SecretString::from(key),
    }
}

fn remote(auth: Auth) -> RemoteAccess {
    RemoteAccess {
        server: Uri::from_static("https://10.0.0.1:6443"),
        tls_server_name: None,
        ca_pem: Some(identity("ca").0),
        auth,
    }
}

fn open(access: &Access) -> Result<Connection, AccessError> {
    open_with(access, AddressPolicy { allow_loopback: false }, &crate::client::fence::ALWAYS)
}

/// A connection that makes one call per second.
fn open_with(
    access: &Access,
    addresses: AddressPolicy,
    permit: &'static Permit,
) -> Result<Connection, AccessError> {
    let settings = ClientSettings {
        deadline: Duration::from_secs(10),
        connect_timeout: Duration::from_secs(5),
        concurrency: 2,
        qps: 1,
        burst: 1,
        addresses,
        limits: Limits::default(),
        permit,
    };
    let metrics = PlaneMetrics::default();
    Connection::open(access, None, &settings, &metrics, &TaskTracker::new(), &CancellationToken::new())
}

#[test]
fn a_new_access_asks_for_no_more_than_it_changes() {
    type Change<'a> = &'a dyn Fn(&mut RemoteAccess);
    let base = remote(token("a"));
    let ours = certificate(identity("ours"));
    let with = |change: &dyn Fn(&mut RemoteAccess)| {
        let mut other = base.clone();
        change(&mut other);
        AccessChange::between(&Access::Remote(base.clone()), &Access::Remote(other))
    };
    let table: [(&str, AccessChange, Change<'_>); 8] = [
        ("same", AccessChange::Nothing, &|_| {}),
        ("same token, read again", AccessChange::Nothing, &|a| a.auth = token("a")),
        ("other token", AccessChange::Swap, &|a| a.auth = token("b")),
        ("certificate for token", AccessChange::Swap, &|a| a.auth = ours.clone()),
        ("other server", AccessChange::Reconnect, &|a| a.server = Uri::from_static("https://10.0.0.2:6443")),
        ("other authority", AccessChange::Reconnect, &|a| a.ca_pem = None),
        ("other name", AccessChange::Reconnect, &|a| a.tls_server_name = Some("plane".to_owned())),
        ("other server and token", AccessChange::Reconnect, &|a| {
            a.server = Uri::from_static("https://10.0.0.2:6443");
            a.auth = token("b");
        }),
    ];
    for (name, expected, change) in table {
        assert_eq!(with(change), expected, "{name}");
    }
    let own = Access::InCluster;
    assert_eq!(AccessChange::between(&own, &own), AccessChange::Nothing);
    assert_eq!(AccessChange::between(&own, &Access::Remote(base.clone())), AccessChange::Reconnect);
    assert_eq!(AccessChange::between(&Access::Remote(base), &own), AccessChange::Reconnect);
}

#[test]
fn another_certificate_or_key_is_a_swap() {
    let (one, two) = (identity("one"), identity("two"));
    let old = Access::Remote(remote(certificate(one.clone())));
    let Access::Remote(base) = &old else { unreachable!() };
    let with = |auth| AccessChange::between(&old, &Access::Remote(RemoteAccess { auth, ..base.clone() }));
    assert_eq!(with(certificate(one.clone())), AccessChange::Nothing);
    assert_eq!(with(certificate((two.0, one.1.clone()))), AccessChange::Swap);
    assert_eq!(with(certificate((one.0, two.1))), AccessChange::Swap);
}

/// A change of what has to be corrected in an access.
type Break = fn(&mut RemoteAccess);

#[rstest]
#[case::authority_is_no_pem("authority", |a: &mut RemoteAccess| a.ca_pem = Some(CANARY.to_owned()))]
#[case::authority_is_broken_pem("authority", |a: &mut RemoteAccess| a.ca_pem = Some(format!("-----BEGIN CERTIFICATE-----\n{CANARY}")))]
#[case::token_with_line_break("token", |a: &mut RemoteAccess| a.auth = token(&format!("{CANARY}\n")))]
#[case::certificate_is_no_pem("client certificate", |a: &mut RemoteAccess| a.auth = certificate((CANARY.to_owned(), identity("x").1)))]
#[case::key_is_no_pem("client key", |a: &mut RemoteAccess| a.auth = certificate((identity("x").0, CANARY.to_owned())))]
#[case::key_section_is_broken("client key", |a: &mut RemoteAccess| {
    a.auth = certificate((identity("x").0, format!("-----BEGIN {CANARY}\n-----BEGIN PRIVATE KEY-----\n{CANARY}!")));
})]
#[case::key_of_another("do not belong", |a: &mut RemoteAccess| a.auth = certificate((identity("x").0, identity("y").1)))]
#[case::plain_http("https", |a: &mut RemoteAccess| a.server = Uri::from_static("http://10.0.0.1:6443"))]
#[case::metadata_service("may have", |a: &mut RemoteAccess| a.server = Uri::from_static("https://169.254.169.254"))]
#[case::loopback("may have", |a: &mut RemoteAccess| a.server = Uri::from_static("https://[::1]:6443"))]
#[case::bad_server_name("tls-server-name", |a: &mut RemoteAccess| a.tls_server_name = Some("a b".to_owned()))]
#[tokio::test]
async fn an_access_that_cannot_be_used_is_refused_without_being_quoted(
    #[case] word: &str,
    #[case] break_it: Break,
) {
    let mut access = remote(token("a"));
    break_it(&mut access);
    let error = open(&Access::Remote(access)).err().unwrap();
    let text = format!("{error} {error:?}");
    assert!(text.contains(word), "{text}");
    assert!(!text.contains(CANARY), "{text}");
}

#[tokio::test]
async fn an_operator_without_a_cluster_says_so() {
    let error = open(&Access::InCluster).err().unwrap();
    assert!(error.to_string().contains("secretRef"), "{error}");
}

#[tokio::test]
async fn credentials_that_cannot_be_used_leave_the_old_ones_in_place() {
    let connection = open(&Access::Remote(remote(token("old")))).unwrap();
    assert!(connection.swap(&token("new\n")).is_err());
    let credentials = connection.credentials.as_ref().unwrap();
    assert_eq!(credentials.authorization().unwrap(), "Bearer old");
    connection.swap(&certificate(identity("x"))).unwrap();
    assert_eq!(credentials.authorization(), None, "a token is not sent along with a certificate");
}

#[test]
fn nothing_that_can_be_printed_holds_a_secret() {
    let (certificate_pem, key_pem) = identity("x");
    let secret_line = key_pem.lines().nth(1).unwrap().to_owned();
    let auths = [token(CANARY), certificate((certificate_pem, key_pem))];
    for auth in auths {
        let credentials = Credentials::new(&auth).unwrap();
        let header = credentials.authorization();
        let access = Access::Remote(remote(auth.clone()));
        let printed = format!("{auth:?} {access:?} {credentials:?} {header:?}");
        assert!(!printed.contains(CANARY) && !printed.contains(&secret_line), "{printed}");
    }
}

#[tokio::test]
async fn tls_settings_do_not_print_the_key() {
    let (certificate_pem, key_pem) = identity("x");
    let secret_line = key_pem.lines().nth(1).unwrap().to_owned();
    let access = remote(certificate((certificate_pem, key_pem)));
    let (config, mut tls) = remote_config(&access, AddressPolicy::default()).unwrap();
    tls.client_auth_cert_resolver = Arc::new(Credentials::new(&access.auth).unwrap());
    let printed = format!("{config:?} {tls:?}");
    assert!(!printed.contains(&secret_line), "{printed}");
}

/// A server that nobody may reach: it counts who tries. With a connection to it.
async fn fenced(permit: &'static Permit) -> (TcpListener, Connection) {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", server.local_addr().unwrap());
    let access = RemoteAccess { server: address.parse().unwrap(), ..remote(token("a")) };
    let connection = open_with(&Access::Remote(access), AddressPolicy { allow_loopback: true }, permit);
    (server, connection.unwrap())
}

async fn write(connection: &Connection) -> String {
    let request = http::Request::post("/api/v1/namespaces").body(b"{}".to_vec()).unwrap();
    connection.calls.request_text(request).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_write_is_not_sent_without_a_permit() {
    static PERMIT: Permit = Permit::ended();
    let (server, connection) = fenced(&PERMIT).await;
    let said = write(&connection).await;
    assert!(said.contains("does not lead"), "{said}");
    assert!(poll!(Box::pin(server.accept())).is_pending(), "nobody was connected to");
}

#[tokio::test]
async fn a_write_that_waited_for_its_turn_is_not_sent_when_the_permit_has_ended_meanwhile() {
    static PERMIT: Permit = Permit::ended();
    PERMIT.hold_until(std::time::Instant::now() + Duration::from_hours(1));
    let (server, connection) = fenced(&PERMIT).await;
    // The first takes the turn of this second, and is still under way when the permit ends; the other one waits for the next.
    let hang_up = async {
        let first = server.accept().await.unwrap();
        PERMIT.end();
        drop(first);
    };
    let (first, second, ()) = tokio::join!(write(&connection), write(&connection), hang_up);
    assert!(!first.contains("does not lead"), "{first}");
    assert!(second.contains("does not lead"), "{second}");
    assert!(poll!(Box::pin(server.accept())).is_pending(), "nobody was connected to again");
}
