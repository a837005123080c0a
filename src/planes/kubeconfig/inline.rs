//! The reference's inline form of a kubeconfig, and what a DataPlane says about Secrets.

use std::collections::BTreeMap;

use kantor_api::{
    common::SecretText,
    data_plane::{ClientCertificate, ClusterTls, KubernetesCluster, ValueFrom},
};

use super::{AddressPolicy, Auth, Refusal, RemoteAccess, credentials, server};

/// Keys of a Secret that are tried for a kubeconfig, where the DataPlane names none.
const KUBECONFIG_KEYS: [&str; 2] = ["kubeconfig", "value"];

const SPEC: &str = "spec.kubernetesCluster";

/// Names of all Secrets that a DataPlane refers to, each once.
pub fn secret_names(spec: &KubernetesCluster) -> Vec<String> {
    let auth = spec.auth.as_ref();
    let mtls = auth.and_then(|auth| auth.mtls.as_ref());
    let values = [
        spec.tls.as_ref().map(|tls| &tls.ca),
        mtls.map(|mtls| &mtls.client_cert),
        mtls.map(|mtls| &mtls.client_key),
        auth.and_then(|auth| auth.bearer_token.as_ref()),
    ];
    let mut names: Vec<String> = vec![];
    let kubeconfig = spec.secret_ref.as_ref().map(|secret| &secret.name);
    let inline = values.into_iter().flatten().filter_map(|value| value.secret_ref.as_ref());
    for name in kubeconfig.into_iter().chain(inline) {
        if !name.is_empty() && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The kubeconfig in the data of a Secret, and its key: the given one, or the first of `kubeconfig` and `value`.
pub fn kubeconfig_key<'a>(
    data: &'a BTreeMap<String, Vec<u8>>,
    key: Option<&str>,
) -> Result<(&'a str, &'a [u8]), Refusal> {
    let key = key.filter(|key| !key.is_empty());
    let found = match key {
        Some(key) => data.get_key_value(key),
        None => KUBECONFIG_KEYS.iter().find_map(|key| data.get_key_value(*key)),
    };
    match (found, key) {
        (Some((name, bytes)), _) => Ok((name, bytes)),
        (None, Some(key)) => Err(Refusal::missing(
            format!("{SPEC}.secretRef.key"),
            format!("the Secret has no key {}", shown(key)),
        )),
        (None, None) => Err(Refusal::missing(
            format!("{SPEC}.secretRef"),
            "the Secret has neither a key kubeconfig nor a key value; name the key in secretRef.key",
        )),
    }
}

/// What `server`, `tls` and `auth` of a DataPlane say about how to reach a cluster. `secrets` gives the data of a
/// Secret of the DataPlane's namespace. A Secret wins over a value that stands beside it, a certificate over a token.
pub fn parse_inline(
    spec: &KubernetesCluster,
    secrets: impl Fn(&str) -> Option<BTreeMap<String, Vec<u8>>>,
    policy: &AddressPolicy,
) -> Result<RemoteAccess, Refusal> {
    let field = format!("{SPEC}.server");
    let Some(server) = spec.server.as_deref().filter(|server| !server.is_empty()) else {
        return Err(Refusal::new(field, "is missing; set the https address of the API server"));
    };
    let server = server::parse(&field, server, *policy)?;
    Ok(RemoteAccess {
        server,
        tls_server_name: None,
        ca_pem: authorities(spec.tls.as_ref(), &secrets)?,
        auth: auth(spec, &secrets)?,
    })
}

fn authorities(
    tls: Option<&ClusterTls>,
    secrets: &impl Fn(&str) -> Option<BTreeMap<String, Vec<u8>>>,
) -> Result<Option<String>, Refusal> {
    let Some(tls) = tls else { return Ok(None) };
    match found(&tls.ca, &format!("{SPEC}.tls.ca"), "ca.crt", secrets)? {
        Some(value) => credentials::authorities(&value.field, &value.pem()?).map(Some),
        None => Ok(None),
    }
}

fn auth(
    spec: &KubernetesCluster,
    secrets: &impl Fn(&str) -> Option<BTreeMap<String, Vec<u8>>>,
) -> Result<Auth, Refusal> {
    let auth = spec.auth.as_ref();
    if let Some(ClientCertificate { client_cert, client_key }) = auth.and_then(|auth| auth.mtls.as_ref()) {
        let certificate = needed(client_cert, &format!("{SPEC}.auth.mtls.clientCert"), "tls.crt", secrets)?;
        let key = needed(client_key, &format!("{SPEC}.auth.mtls.clientKey"), "tls.key", secrets)?;
        return credentials::client_certificate(
            (&certificate.field, &certificate.pem()?),
            (&key.field, &key.pem()?),
        );
    }
    let Some(token) = auth.and_then(|auth| auth.bearer_token.as_ref()) else {
        return Err(Refusal::new(format!("{SPEC}.auth"), "has no credentials; set mtls or bearerToken"));
    };
    let token = needed(token, &format!("{SPEC}.auth.bearerToken"), "token", secrets)?;
    credentials::token(&token.field, &token.bytes)
}

/// A value, where it was found. Has no `Debug`: it may be a secret.
struct Found {
    field: String,
    bytes: Vec<u8>,
    inline: bool,
}

impl Found {
    /// The PEM: inline it is in base64, in a Secret it is as it is.
    fn pem(&self) -> Result<Vec<u8>, Refusal> {
        if !self.inline {
            return Ok(self.bytes.clone());
        }
        let text = str::from_utf8(&self.bytes).map_err(|_| Refusal::new(&self.field, "is not text"))?;
        credentials::decode(&self.field, text)
    }
}

fn needed(
    value: &ValueFrom,
    field: &str,
    key: &str,
    secrets: &impl Fn(&str) -> Option<BTreeMap<String, Vec<u8>>>,
) -> Result<Found, Refusal> {
    found(value, field, key, secrets)?
        .ok_or_else(|| Refusal::new(field, "is empty; set secretRef (better) or value"))
}

fn found(
    value: &ValueFrom,
    field: &str,
    key: &str,
    secrets: &impl Fn(&str) -> Option<BTreeMap<String, Vec<u8>>>,
) -> Result<Option<Found>, Refusal> {
    if let Some(name) = value.secret_ref.as_deref().filter(|name| !name.is_empty()) {
        let field = format!("{field}.secretRef");
        let Some(mut data) = secrets(name) else {
            let why = format!("there is no Secret {} in the namespace of the DataPlane", shown(name));
            return Err(Refusal::missing(field, why));
        };
        let Some(bytes) = data.remove(key) else {
            return Err(Refusal::missing(field, format!("the Secret {} has no key {key}", shown(name))));
        };
        return Ok(Some(Found { field: format!("{field}[{key}]"), bytes, inline: false }));
    }
    let text = value.value.as_ref().map(SecretText::expose).filter(|text| !text.is_empty());
    Ok(text.map(|text| Found {
        field: format!("{field}.value"),
        bytes: text.as_bytes().to_vec(),
        inline: true,
    }))
}

/// The name of a Secret or of a key of one. A text that cannot be such a name is not repeated: it may be a secret that
/// was put into the wrong field.
fn shown(name: &str) -> &str {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if name.len() <= 253 && name.bytes().all(plain) { name } else { "of that name" }
}
