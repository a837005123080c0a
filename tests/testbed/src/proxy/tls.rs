//! Certificates of both sides: the proxy's own towards its clients, the front-proxy one towards the server.

use std::sync::Arc;

use anyhow::{Context, ensure};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use x509_parser::{parse_x509_certificate, x509::AttributeTypeAndValue};

use super::{Upstream, forward::ReplyClient};

/// What the client's certificate says, once per connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    None,
    Verified { user: String, groups: Vec<String> },
    Rejected,
}

/// The proxy's side towards its clients.
pub(super) struct Facade {
    pub(super) ca_pem: String,
    pub(super) config: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl Facade {
    /// Makes a CA of the proxy's own and a serving certificate for loopback.
    pub(super) fn new(client_ca_pem: Option<&str>) -> anyhow::Result<Self> {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        ca.distinguished_name.push(DnType::CommonName, "kantor-testbed proxy CA");
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;

        let key = KeyPair::generate()?;
        let mut serving = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        serving.distinguished_name.push(DnType::CommonName, "kantor-testbed proxy");
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let serving = serving.signed_by(&key, &ca)?;

        let verifier = client_ca_pem.map(client_verifier).transpose()?;
        let builder =
            ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let builder = match verifier.clone() {
            Some(inner) => builder.with_client_cert_verifier(Arc::new(Lenient(inner))),
            None => builder.with_no_client_auth(),
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let mut config = builder.with_single_cert(vec![serving.der().clone()], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { ca_pem: ca.pem(), config: Arc::new(config), verifier })
    }

    /// Judges the certificate that a client showed in its handshake.
    pub(super) fn identify(&self, chain: Option<&[CertificateDer<'_>]>) -> Identity {
        let (Some([leaf, intermediates @ ..]), Some(verifier)) = (chain, &self.verifier) else {
            return Identity::None;
        };
        if verifier.verify_client_cert(leaf, intermediates, UnixTime::now()).is_err() {
            return Identity::Rejected;
        }
        subject(leaf).map_or(Identity::Rejected, |(user, groups)| Identity::Verified { user, groups })
    }
}

/// Common name and organizations of a certificate, which Kubernetes takes as user and groups.
fn subject(certificate: &[u8]) -> Option<(String, Vec<String>)> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    let text = |part: &AttributeTypeAndValue| part.as_str().ok().map(ToOwned::to_owned);
    let user = certificate.subject().iter_common_name().find_map(text)?;
    Some((user, certificate.subject().iter_organization().filter_map(text).collect()))
}

/// Clients towards the server; each keeps its idle connections for the next request.
pub(super) struct Clients {
    /// Shows no certificate.
    pub(super) plain: ReplyClient,
    /// Shows the front-proxy certificate, so that the server believes the identity in the headers.
    pub(super) front_proxy: Option<ReplyClient>,
}

impl Clients {
    pub(super) fn new(upstream: &Upstream) -> anyhow::Result<Self> {
        let roots = root_store(&upstream.ca_pem).context("CA of the server")?;
        let builder = || -> anyhow::Result<_> {
            let versions =
                ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
            Ok(versions.with_root_certificates(roots.clone()))
        };
        let plain = client(builder()?.with_no_client_auth());
        let front_proxy = match &upstream.front_proxy {
            Some(identity) => {
                let chain = certificates(&identity.certificate_pem).context("front-proxy certificate")?;
                let key =
                    PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).context("front-proxy key")?;
                Some(client(builder()?.with_client_auth_cert(chain, key)?))
            }
            None => None,
        };
        ensure!(
            upstream.client_ca_pem.is_none() || front_proxy.is_some(),
            "client certificates cannot be passed on without a front-proxy certificate"
        );
        Ok(Self { plain, front_proxy })
    }
}

fn client(config: ClientConfig) -> ReplyClient {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls =
        HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().wrap_connector(tcp);
    Client::builder(TokioExecutor::new()).build(tls)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(pem: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    ensure!(!found.is_empty(), "no certificate in the PEM text");
    Ok(found)
}

fn root_store(pem: &str) -> anyhow::Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate)?;
    }
    Ok(Arc::new(roots))
}

fn client_verifier(pem: &str) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let roots = root_store(pem).context("CA of client certificates")?;
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots, provider()).allow_unauthenticated().build()?;
    Ok(verifier)
}

/// Lets any certificate through the handshake, whose holder must still prove to have its key.
///
/// The apiserver does the same and answers a bad certificate with 401; to refuse it in the handshake would show the
/// operator under test another error than a real cluster does.
#[derive(Debug)]
struct Lenient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
