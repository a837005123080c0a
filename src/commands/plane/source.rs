//! The kubeconfigs of whoever runs the command: theirs, so they may ask for anything, commands included.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use kantor_core::registration::Way;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// A context of a kubeconfig, and what it is for.
pub(super) struct Source<'a> {
    /// For messages: `data plane` or `control plane`.
    pub(super) of: &'static str,
    /// The file; without one, those that kubectl reads.
    pub(super) kubeconfig: Option<&'a PathBuf>,
    /// The context; without one, the current one.
    pub(super) context: Option<&'a str>,
}

impl Source<'_> {
    /// What the context says.
    pub(super) async fn config(&self) -> anyhow::Result<Config> {
        let kubeconfig = match self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?,
            None => Kubeconfig::read()
                .context("found no kubeconfig: name one with --kubeconfig, or set $KUBECONFIG")?,
        };
        let named = self.context.or(kubeconfig.current_context.as_deref()).map(ToOwned::to_owned);
        let Some(context) = named else {
            bail!("the kubeconfig of the {} has no current context: name one with a flag", self.of);
        };
        if !kubeconfig.contexts.iter().any(|known| known.name == context) {
            let known: Vec<&str> = kubeconfig.contexts.iter().map(|known| known.name.as_str()).collect();
            bail!(
                "the kubeconfig of the {} has no context {context:?}; it has {}",
                self.of,
                known.join(", ")
            );
        }
        let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .with_context(|| format!("cannot use the context {context} of the {}", self.of))?;
        config.connect_timeout = Some(std::time::Duration::from_secs(10));
        Ok(config)
    }

    /// A client of it.
    pub(super) fn client(&self, config: Config) -> anyhow::Result<Client> {
        Client::try_from(config).with_context(|| format!("cannot make a client of the {}", self.of))
    }
}

/// How others reach the cluster of a context: `server` and `authority` (PEM) go before what the context says.
pub(super) fn way(config: &Config, server: Option<&str>, authority: Option<String>) -> anyhow::Result<Way> {
    if config.proxy_url.is_some() && server.is_none() {
        bail!(
            "the context goes through a proxy, which Kantor does not: name the API server's own address with --server"
        );
    }
    if config.accept_invalid_certs && authority.is_none() {
        bail!(
            "the context does not verify the server, which Kantor does: name its authority with --certificate-authority"
        );
    }
    let ca_pem = authority.or_else(|| config.root_cert.as_ref().map(|certificates| pem(certificates)));
    let own = server.is_none();
    Ok(Way {
        server: server.map_or_else(|| config.cluster_url.to_string(), ToOwned::to_owned),
        tls_server_name: config.tls_server_name.clone().filter(|_| own),
        ca_pem,
    })
}

/// Certificates as text.
fn pem(certificates: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = BASE64_STANDARD.encode(certificate);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, more) = rest.split_at(rest.len().min(64));
            text.push_str(line);
            text.push('\n');
            rest = more;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{CertificateDer, pem::PemObject};

    use super::*;

    fn config() -> Config {
        Config::new("https://eu.example:6443".parse().unwrap())
    }

    #[test]
    fn certificates_come_back_as_they_were() {
        let certificates = vec![vec![1; 100], vec![2; 48]];
        let text = pem(&certificates);
        assert!(text.lines().all(|line| line.len() <= 64), "{text}");
        let read: Vec<Vec<u8>> =
            CertificateDer::pem_slice_iter(text.as_bytes()).map(|der| der.unwrap().to_vec()).collect();
        assert_eq!(read, certificates);
    }

    #[test]
    fn another_address_goes_before_that_of_the_context_and_leaves_its_name_behind() {
        let mut config = config();
        config.tls_server_name = Some("kubernetes".to_owned());
        config.root_cert = Some(vec![vec![1]]);
        let own = way(&config, None, None).unwrap();
        assert_eq!(
            (own.server.as_str(), own.tls_server_name.as_deref()),
            ("https://eu.example:6443/", Some("kubernetes"))
        );
        let other = way(&config, Some("https://10.0.0.1"), Some("PEM".to_owned())).unwrap();
        assert_eq!((other.server.as_str(), other.tls_server_name), ("https://10.0.0.1", None));
        assert_eq!(other.ca_pem.as_deref(), Some("PEM"));
    }

    #[test]
    fn what_kantor_would_not_do_is_refused_with_what_to_do_instead() {
        let mut through_proxy = config();
        through_proxy.proxy_url = Some("http://proxy.example".parse().unwrap());
        let error = way(&through_proxy, None, None).unwrap_err().to_string();
        assert!(error.contains("--server"), "{error}");
        let mut blind = config();
        blind.accept_invalid_certs = true;
        let error = way(&blind, None, None).unwrap_err().to_string();
        assert!(error.contains("--certificate-authority"), "{error}");
        assert!(way(&blind, None, Some("PEM".to_owned())).is_ok());
    }
}
