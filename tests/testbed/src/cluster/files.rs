//! A cluster's folder: keys, certificates, tokens, kubeconfig.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use rcgen::KeyPair;

use crate::{
    certificates::{Authority, Identity},
    folder::Folder,
};

/// The common name that the API server lets speak for others.
pub(super) const FRONT_PROXY: &str = "front-proxy-client";
/// What the components find in the folder.
pub(super) const SERVING_CERTIFICATE: &str = "serving.crt";
pub(super) const SERVING_KEY: &str = "serving.key";
pub(super) const CA: &str = "ca.crt";
pub(super) const FRONT_PROXY_CA: &str = "front-proxy-ca.crt";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
pub(super) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-account.pub";
pub(super) const TOKENS: &str = "tokens.csv";
pub(super) const KUBECONFIG: &str = "kubeconfig";
pub(super) const STAGES: &str = "stages.yaml";
pub(super) const ETCD_SOCKET: &str = "etcd.sock";

/// The folder and the secrets that were made for it.
pub(super) struct Files {
    folder: Folder,
    pub(super) authority: Authority,
    pub(super) front_proxy: Identity,
    pub(super) admin_token: String,
}

impl Files {
    pub(super) fn create(name: &str) -> Result<Self> {
        let folder = Folder::temporary(name)?;
        // sun_path of a unix socket: 104 bytes on some systems, 108 on others.
        let socket = folder.path().join(ETCD_SOCKET);
        ensure!(
            socket.as_os_str().len() < 100,
            "the path {} is too long for a socket: set TMPDIR to a shorter one",
            socket.display()
        );

        let authority = Authority::new(&format!("{name} CA"))?;
        // Apart from the cluster's own: whoever holds a certificate of this one may claim to be anybody.
        let front_proxy_authority = Authority::new(&format!("{name} front proxy CA"))?;
        let files = Self {
            front_proxy: front_proxy_authority.issue_client(FRONT_PROXY, &[])?,
            admin_token: random_token()?,
            authority,
            folder,
        };
        files.write(CA, &files.authority.pem())?;
        files.write(FRONT_PROXY_CA, &front_proxy_authority.pem())?;
        let serving = files.authority.issue_server(&["127.0.0.1", "localhost"])?;
        files.write(SERVING_CERTIFICATE, &serving.certificate_pem)?;
        files.write(SERVING_KEY, &serving.key_pem)?;
        let service_accounts = KeyPair::generate().context("generate the service account key")?;
        files.write(SERVICE_ACCOUNT_KEY, &service_accounts.serialize_pem())?;
        files.write(SERVICE_ACCOUNT_PUBLIC_KEY, &service_accounts.public_key_pem())?;
        files.write(TOKENS, &format!("{},kantor-admin,kantor-admin,system:masters\n", files.admin_token))?;
        Ok(files)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }
}

fn random_token() -> Result<String> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    Ok(bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}
