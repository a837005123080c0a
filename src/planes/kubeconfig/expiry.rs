//! When credentials expire, as far as they say so.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use kantor_core::renewal::Claims;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use secrecy::ExposeSecret;

use super::{Auth, RemoteAccess};

/// When the credentials expire: `notAfter` of the client certificate, or `exp` of a token that is a JWT. For showing
/// only: nothing is verified, and what cannot be read says nothing.
pub fn credentials_expiry(access: &RemoteAccess) -> Option<Timestamp> {
    match &access.auth {
        Auth::Token(token) => jwt_expiry(token.expose_secret()),
        Auth::ClientCertificate { certificate_pem, .. } => {
            let certificate =
                CertificateDer::from_pem_slice(certificate_pem.expose_secret().as_bytes()).ok()?;
            not_after(&certificate)
        }
    }
}

/// What a token says about itself, if it is a JWT. Nothing is verified: it is for planning, the API server decides.
pub fn token_claims(access: &RemoteAccess) -> Option<Claims> {
    match &access.auth {
        Auth::Token(token) => jwt_claims(token.expose_secret()),
        Auth::ClientCertificate { .. } => None,
    }
}

fn jwt_expiry(token: &str) -> Option<Timestamp> {
    jwt_claims(token)?.expires
}

fn jwt_claims(token: &str) -> Option<Claims> {
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&payload).ok()?;
    // RFC 7519 allows fractions of seconds; casts from floats saturate, and what is out of range is no timestamp.
    let time = |name: &str| {
        let value = claims.get(name)?;
        #[allow(clippy::cast_possible_truncation)]
        let seconds = value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))?;
        Timestamp::from_second(seconds).ok()
    };
    Some(Claims {
        subject: claims.get("sub").and_then(|subject| subject.as_str()).map(ToOwned::to_owned),
        issued: time("iat"),
        expires: time("exp"),
    })
}

// Tags of DER (X.690).
const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const EXPLICIT_VERSION: u8 = 0xa0;

/// `notAfter` of an X.509 certificate. rustls keeps it to itself, and a whole parser of X.509 for one field is not
/// worth its dependencies.
fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    let (SEQUENCE, certificate, _) = element(certificate)? else { return None };
    let (SEQUENCE, mut tbs, _) = element(certificate)? else { return None };
    if let (EXPLICIT_VERSION, _, rest) = element(tbs)? {
        tbs = rest;
    }
    // Serial number, signature algorithm, issuer.
    for expected in [INTEGER, SEQUENCE, SEQUENCE] {
        let (tag, _, rest) = element(tbs)?;
        if tag != expected {
            return None;
        }
        tbs = rest;
    }
    let (SEQUENCE, validity, _) = element(tbs)? else { return None };
    let (_, _, after_not_before) = element(validity)?;
    let (tag, time, _) = element(after_not_before)?;
    time_of(tag, time)
}

/// Splits the first element off: its tag, its content, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // No certificate is longer than what two bytes say.
        0x81 | 0x82 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x0f))?;
            (bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`. 99991231235959Z, which stands for "never" (RFC 5280), is beyond what a
/// timestamp can say and so is none.
fn time_of(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let year: i16 = text[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<i8>().ok();
    let time = DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests;
