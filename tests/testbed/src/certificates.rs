//! Certificate authorities of a cluster and the identities that they issue.

use std::fmt;

use anyhow::{Context, Result, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};

/// A certificate and its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// Its private key, PKCS#8 PEM.
    pub key_pem: String,
}

/// Private keys stay out of logs and panics.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate_pem", &self.certificate_pem).finish_non_exhaustive()
    }
}

/// A certificate authority, made fresh for one cluster.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// A new self-signed authority.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().context("generate the key of a certificate authority")?;
        Ok(Self(CertifiedIssuer::self_signed(params, key).context("sign a certificate authority")?))
    }

    /// The authority's own certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A client: Kubernetes takes the common name as user and the organizations as groups (at most two).
    pub fn issue_client(&self, common_name: &str, groups: &[&str]) -> Result<Identity> {
        let params = CertificateParams::default();
        self.issue(params, subject(common_name, groups)?, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A server that answers to the given host names and IP addresses.
    pub fn issue_server(&self, hosts: &[&str]) -> Result<Identity> {
        let names: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        let params =
            CertificateParams::new(names).with_context(|| format!("use {hosts:?} in a certificate"))?;
        self.issue(params, subject("server", &[])?, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        subject: DistinguishedName,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        params.distinguished_name = subject;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("generate a key")?;
        let certificate = params.signed_by(&key, &self.0).context("sign a certificate")?;
        Ok(Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

/// rcgen keeps one value per attribute type, so the second organization is written under its bare number.
fn subject(common_name: &str, organizations: &[&str]) -> Result<DistinguishedName> {
    const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];
    let types = [DnType::OrganizationName, DnType::CustomDnType(ORGANIZATION.to_vec())];
    ensure!(
        organizations.len() <= types.len(),
        "a client certificate holds at most two groups here, not {organizations:?}: bind the user instead"
    );
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    for (organization, kind) in organizations.iter().zip(types) {
        name.push(kind, *organization);
    }
    Ok(name)
}
