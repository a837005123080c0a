//! Certificates, keys and tokens: read here with what the connection reads them with, so that what cannot be used is
//! refused by name rather than found out by a handshake.

use std::fmt::Write as _;

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    Error as TlsError, InconsistentKeys, RootCertStore,
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::ParsedCertificate,
    sign::CertifiedKey,
};
use secrecy::SecretString;

use super::{Auth, Refusal};

/// Largest PEM: about twenty certificates.
const MAX_PEM_BYTES: usize = 32 * 1024;

/// Largest token. It goes into a header of every request.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Decodes base64, in which line breaks are allowed.
pub(super) fn decode(field: &str, text: &str) -> Result<Vec<u8>, Refusal> {
    if text.len() > 2 * MAX_PEM_BYTES {
        return Err(too_large(field, MAX_PEM_BYTES));
    }
    if text.trim_start().starts_with("-----BEGIN") {
        return Err(Refusal::new(field, "is PEM as it is; encode it in base64"));
    }
    let compact: String = text.split_ascii_whitespace().collect();
    if compact.is_empty() {
        return Err(Refusal::new(field, "is empty"));
    }
    STANDARD.decode(compact).map_err(|_| Refusal::new(field, "is not valid base64"))
}

/// Certificate authorities. What is returned holds the certificates and nothing else that stood around them.
pub(super) fn authorities(field: &str, pem: &[u8]) -> Result<String, Refusal> {
    let certificates = certificates(field, pem)?;
    let mut store = RootCertStore::empty();
    for (index, certificate) in certificates.iter().enumerate() {
        store.add(certificate.clone()).map_err(|_| not_a_certificate(field, index))?;
    }
    Ok(to_pem("CERTIFICATE", &certificates))
}

/// A client certificate with its chain, and its key; each with its field.
pub(super) fn client_certificate(
    (certificate_field, certificate): (&str, &[u8]),
    (key_field, key): (&str, &[u8]),
) -> Result<Auth, Refusal> {
    let chain = certificates(certificate_field, certificate)?;
    for (index, certificate) in chain.iter().enumerate() {
        ParsedCertificate::try_from(certificate).map_err(|_| not_a_certificate(certificate_field, index))?;
    }
    let key = private_key(key_field, key)?;
    let signing_key = any_supported_type(&key).map_err(|_| {
        Refusal::new(
            key_field,
            "is not a key that can be used; use RSA of 2048 bits or more, ECDSA P-256 or P-384, or Ed25519",
        )
    })?;
    let certificate_pem = to_pem("CERTIFICATE", &chain).into();
    match CertifiedKey::new(chain, signing_key).keys_match() {
        // Unknown: keys of that kind do not tell.
        Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(_) => return Err(Refusal::new(key_field, "does not belong to the client certificate")),
    }
    let label = match &key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    Ok(Auth::ClientCertificate { certificate_pem, key_pem: to_pem(label, &[key.secret_der()]).into() })
}

/// A bearer token. Line breaks at its end, as editors and `echo` leave them, are not part of it.
pub(super) fn token(field: &str, bytes: &[u8]) -> Result<Auth, Refusal> {
    let end = bytes.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    let bytes = &bytes[..end];
    if bytes.is_empty() {
        return Err(Refusal::new(field, "is empty"));
    }
    if bytes.len() > MAX_TOKEN_BYTES {
        return Err(too_large(field, MAX_TOKEN_BYTES));
    }
    // Anything else could end the header and start another.
    if !bytes.iter().all(u8::is_ascii_graphic) {
        return Err(Refusal::new(field, "has spaces, line breaks or characters that a token cannot have"));
    }
    let token = str::from_utf8(bytes).map_err(|_| Refusal::new(field, "is not text"))?;
    Ok(Auth::Token(SecretString::from(token)))
}

fn certificates(field: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Refusal> {
    let certificates: Vec<_> = sections(field, pem)?;
    if certificates.is_empty() {
        return Err(Refusal::new(field, "has no certificate in PEM"));
    }
    Ok(certificates)
}

fn private_key(field: &str, pem: &[u8]) -> Result<PrivateKeyDer<'static>, Refusal> {
    let mut keys: Vec<PrivateKeyDer<'static>> = sections(field, pem)?;
    match (keys.pop(), keys.is_empty()) {
        (Some(key), true) => Ok(key),
        (Some(_), false) => Err(Refusal::new(field, "has more than one private key")),
        (None, _) => Err(Refusal::new(field, "has no private key in PEM; encrypted keys cannot be used")),
    }
}

fn sections<T: PemObject>(field: &str, pem: &[u8]) -> Result<Vec<T>, Refusal> {
    if pem.len() > MAX_PEM_BYTES {
        return Err(too_large(field, MAX_PEM_BYTES));
    }
    T::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| Refusal::new(field, "is not valid PEM"))
}

fn to_pem(label: &str, ders: &[impl AsRef<[u8]>]) -> String {
    let mut pem = String::new();
    for der in ders {
        let _ = writeln!(pem, "-----BEGIN {label}-----");
        // 48 bytes are the 64 characters of a line.
        for line in der.as_ref().chunks(48) {
            STANDARD.encode_string(line, &mut pem);
            pem.push('\n');
        }
        let _ = writeln!(pem, "-----END {label}-----");
    }
    pem
}

fn not_a_certificate(field: &str, index: usize) -> Refusal {
    Refusal::new(
        field,
        format!("certificate {} is not X.509 that can be used; version 3 is needed", index + 1),
    )
}

fn too_large(field: &str, limit: usize) -> Refusal {
    Refusal::new(field, format!("is larger than {limit} bytes"))
}
