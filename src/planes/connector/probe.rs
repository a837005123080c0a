//! Asking a cluster who it is and what it has.
//!
//! The answers are read here and not by kube: the server is whatever somebody put into a kubeconfig, and kube logs
//! what it cannot read.

use std::{error::Error as StdError, future::Future, io, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode, header::ACCEPT};
use http_body_util::BodyExt;
use kube::{
    Client, Error,
    client::Body,
    core::{PartialObjectMeta, discovery::v2::ACCEPT_AGGREGATED_DISCOVERY_V2},
};
use rustls::{AlertDescription, CertificateError};
use serde::{Deserialize, de::DeserializeOwned};

use super::state::{DisconnectReason, Facts, Failure};
use crate::planes::{
    Capabilities, ServedKinds,
    client::ResolveError,
    definitions::{self, Reading},
    room::TooLarge,
};

/// What discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) facts: Facts,
    pub(super) kinds: Arc<ServedKinds>,
    /// Whether the server said that it is ready before it was asked what it serves. It may not let us ask.
    pub(super) said_ready: bool,
}

/// Asks everything that has to be known of a plane before it is used, within `deadline`.
pub(super) async fn everything(client: &Client, deadline: Duration) -> Result<Found, Failure> {
    within(deadline, async {
        let server_version = version(client).await?;
        let said_ready = is_ready(client).await?;
        let cluster_uid = identity(client).await?;
        let (capabilities, kinds) = discover(client).await?;
        Ok(Found { facts: Facts { server_version, cluster_uid, capabilities }, kinds, said_ready })
    })
    .await
}

/// Asks for the cluster's identity, which takes valid credentials and a working store.
pub(super) async fn alive(client: &Client, deadline: Duration) -> Result<String, Failure> {
    within(deadline, identity(client)).await
}

async fn within<T>(
    deadline: Duration,
    asking: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(deadline, asking).await.unwrap_or_else(|_| Err(silence()))
}

async fn version(client: &Client) -> Result<String, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    let version: Version = ask(client, "/version", "application/json").await?;
    Ok(printable(&version.git_version))
}

/// Whether the server says that it is ready. One that has just started serves custom resources by and by, and says so when it
/// serves all of them; what it does not serve before that is not absent. False where we may not ask: then nothing is taken for
/// absent without the list of definitions.
async fn is_ready(client: &Client) -> Result<bool, Failure> {
    const PATH: &str = "/readyz";
    let status = send(client, PATH, "*/*").await?.status();
    if status == StatusCode::FORBIDDEN {
        return Ok(false);
    }
    match failure_of_status(status, PATH) {
        None => Ok(true),
        Some(Failure { why: DisconnectReason::Unhealthy, .. }) => Err(Failure {
            why: DisconnectReason::Unhealthy,
            message: format!(
                "the server is not ready ({PATH} answers {}): wait, or look at the health of its API server",
                status.as_u16()
            ),
        }),
        Some(failure) => Err(failure),
    }
}

async fn identity(client: &Client) -> Result<String, Failure> {
    const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let namespace: PartialObjectMeta = ask(client, "/api/v1/namespaces/kube-system", METADATA).await?;
    match namespace.metadata.uid {
        Some(uid) if !uid.is_empty() => Ok(printable(&uid)),
        _ => Err(not_kubernetes()),
    }
}

/// The optional parts of a cluster, and the kinds that it serves.
pub(super) async fn discover(client: &Client) -> Result<(Capabilities, Arc<ServedKinds>), Failure> {
    let core = get(client, "/api", ACCEPT_AGGREGATED_DISCOVERY_V2).await?;
    let groups = get(client, "/apis", ACCEPT_AGGREGATED_DISCOVERY_V2).await?;
    let kinds = ServedKinds::read(&[&core, &groups]).ok_or_else(|| Failure {
        why: DisconnectReason::NotKubernetes,
        message: "the server does not tell what it serves in one answer: Kubernetes 1.27 or newer is needed"
            .to_owned(),
    })?;
    Ok((Capabilities::of(kinds.kinds()), kinds))
}

/// The version, the optional parts and the kinds of a cluster that is known already.
pub(super) async fn refresh(
    client: &Client,
    deadline: Duration,
) -> Result<(String, Capabilities, Arc<ServedKinds>), Failure> {
    within(deadline, async {
        is_ready(client).await?;
        let (capabilities, kinds) = discover(client).await?;
        Ok((version(client).await?, capabilities, kinds))
    })
    .await
}

/// Reads the definition `name`, with the right that lists them all; none if it has gone.
pub(super) async fn definition(
    client: &Client,
    name: &str,
    deadline: Duration,
) -> Result<Option<Reading>, Failure> {
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=metadata.name%3D{name}&limit=1"
    );
    let answer = within(deadline, get(client, &path, "application/json")).await?;
    Ok(definitions::read(&answer, name))
}

async fn ask<T: DeserializeOwned>(client: &Client, path: &str, accept: &str) -> Result<T, Failure> {
    let answer = get(client, path, accept).await?;
    serde_json::from_slice(&answer).map_err(|_| not_kubernetes())
}

async fn send(client: &Client, path: &str, accept: &str) -> Result<Response<Body>, Failure> {
    let request = Request::get(path)
        .header(ACCEPT, accept)
        .body(Body::empty())
        .map_err(|error| failure_of(&Error::HttpError(error)))?;
    client.send(request).await.map_err(|error| failure_of(&error))
}

async fn get(client: &Client, path: &str, accept: &str) -> Result<Vec<u8>, Failure> {
    let answer = send(client, path, accept).await?;
    if let Some(failure) = failure_of_status(answer.status(), path) {
        return Err(failure);
    }
    read(answer).await
}

async fn read(answer: Response<Body>) -> Result<Vec<u8>, Failure> {
    let body = answer.into_body().collect().await.map_err(|error| failure_of(&error))?;
    Ok(body.to_bytes().to_vec())
}

fn failure_of_status(status: StatusCode, path: &str) -> Option<Failure> {
    let (why, message) = match status {
        status if status.is_success() => return None,
        StatusCode::UNAUTHORIZED => (DisconnectReason::Unauthorized, UNAUTHORIZED.to_owned()),
        StatusCode::FORBIDDEN => (
            DisconnectReason::Forbidden,
            format!("the credentials may not read {path}: grant the plane's role to their user"),
        ),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => (
            DisconnectReason::Unhealthy,
            format!("the server answers {}: look at the health of its API server", status.as_u16()),
        ),
        _ => return Some(not_kubernetes()),
    };
    Some(Failure { why, message })
}

const UNAUTHORIZED: &str = "the credentials are not accepted (401): put valid ones into the plane's Secret";

fn not_kubernetes() -> Failure {
    Failure {
        why: DisconnectReason::NotKubernetes,
        message: "what answers is not a Kubernetes API server: correct the server's address".to_owned(),
    }
}

/// The definitions of a plane cannot be listed.
pub(super) fn unlisted() -> Failure {
    Failure {
        why: DisconnectReason::Unhealthy,
        message:
            "the server does not list its custom resource definitions: look at the health of its API server"
                .to_owned(),
    }
}

/// A plane says more than is kept of it.
pub(super) fn excess(TooLarge(what): &TooLarge) -> Failure {
    Failure {
        why: DisconnectReason::AnswerTooLarge,
        message: format!(
            "the server says more than Kantor keeps of a data plane: {what}; find out what makes it so large, or whether it is the right server"
        ),
    }
}

fn silence() -> Failure {
    unreachable("it does not answer in time")
}

fn unreachable(how: &str) -> Failure {
    Failure {
        why: DisconnectReason::Unreachable,
        message: format!(
            "cannot reach the server: {how}; check its address, the network between and its health"
        ),
    }
}

/// Finds what is behind an error. The texts are ours: those of the causes change from try to try, and may quote
/// what a server chose to send.
fn failure_of(error: &(dyn StdError + 'static)) -> Failure {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(known).unwrap_or_else(|| unreachable("the connection broke"))
}

fn known(error: &(dyn StdError + 'static)) -> Option<Failure> {
    if let Some(name) = error.downcast_ref::<ResolveError>() {
        return Some(unreachable(match name {
            ResolveError::Unknown => "its name is not known",
            ResolveError::Refused => "its name has no address that a plane may have",
        }));
    }
    if let Some(what) = error.downcast_ref::<TooLarge>() {
        return Some(excess(what));
    }
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(failure_of_tls(tls));
    }
    let io = error.downcast_ref::<io::Error>()?;
    // The source of an io::Error is not what it wraps, but the source of that.
    let wrapped = io.get_ref().and_then(|wrapped| known(wrapped));
    Some(wrapped.unwrap_or_else(|| failure_of_io(io.kind())))
}

fn failure_of_io(kind: io::ErrorKind) -> Failure {
    unreachable(match kind {
        io::ErrorKind::ConnectionRefused => "the connection is refused",
        io::ErrorKind::TimedOut => return silence(),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "there is no way to it",
        _ => "the connection broke",
    })
}

fn failure_of_tls(error: &rustls::Error) -> Failure {
    let why = match error {
        rustls::Error::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => {
            return Failure { why: DisconnectReason::Unauthorized, message: UNAUTHORIZED.to_owned() };
        }
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is not signed by the given authority"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is for another name",
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "its certificate has expired",
        // kubectl accepts it; the library that is used here does not, and has no name of its own for it.
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            return Failure {
                why: DisconnectReason::TlsFailed,
                message: "cannot trust the server: its certificate is that of an authority (CA:TRUE), which must not be used by a \
                          server; issue a server certificate with basicConstraints CA:FALSE that this authority signs"
                    .to_owned(),
            };
        }
        rustls::Error::InvalidCertificate(_) => "its certificate is not valid",
        _ => "the handshake fails",
    };
    Failure {
        why: DisconnectReason::TlsFailed,
        message: format!(
            "cannot trust the server: {why}; correct certificate-authority-data, tls-server-name or the server's certificate"
        ),
    }
}

/// A short text of a server that may go into a status.
fn printable(text: &str) -> String {
    const LONGEST: usize = 64;
    text.chars().filter(char::is_ascii_graphic).take(LONGEST).collect()
}

#[cfg(test)]
mod tests;
