//! What Flux takes its objects from: a source, whose artifact is a packed folder that is served on this machine.

use std::{fs, net::SocketAddr, process::Command};

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use super::{
    flux::NAMESPACE,
    release::objects,
    sample::{self, ORGANIZATION},
    stand::Ground,
};

/// Kinds of sources with their plurals: the controller watches all of them.
const SOURCES: [(&str, &str); 3] =
    [("GitRepository", "gitrepositories"), ("OCIRepository", "ocirepositories"), ("Bucket", "buckets")];

/// The kinds of sources. Nobody writes them but the bench, so that their fields are not checked.
pub(crate) fn source_crds() -> String {
    let crd = |(kind, plural): (&str, &str)| {
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let names = json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural,
            "singular": kind.to_lowercase()});
        let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": any}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.source.toolkit.fluxcd.io")},
            "spec": {"group": "source.toolkit.fluxcd.io", "scope": "Namespaced", "names": names,
                "versions": [version]}})
    };
    json!({"apiVersion": "v1", "kind": "List", "items": SOURCES.map(crd)}).to_string()
}

/// A packed folder with the objects of Releases. It is served until this is dropped.
pub(crate) struct Artifact {
    address: SocketAddr,
    digest: String,
    size: usize,
    server: JoinHandle<()>,
}

impl Drop for Artifact {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Artifact {
    pub(crate) async fn serve(releases: usize) -> Result<Self> {
        let bytes = pack(releases)?;
        let digest =
            Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, size) = (listener.local_addr()?, bytes.len());
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let bytes = bytes.clone();
                tokio::spawn(async move {
                    // One request to a connection: who asks is known, and asks for one thing.
                    let _ = stream.read(&mut [0; 4096]).await;
                    let size = bytes.len();
                    let head =
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n");
                    let _ = stream.write_all(head.as_bytes()).await;
                    let _ = stream.write_all(&bytes).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Ok(Self { address, digest, size, server })
    }

    /// Makes the source that has the artifact, as Flux's source-controller would.
    pub(crate) async fn announce(&self, ground: &Ground) -> Result<()> {
        let source = sample::object(json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": "source", "namespace": ORGANIZATION},
            "spec": {"url": "https://git.example.com/releases", "interval": "1h"},
        }));
        let resource = ApiResource { plural: SOURCES[0].1.to_owned(), ..sample::resource_of(&source) };
        let api: Api<DynamicObject> = Api::namespaced_with(ground.client.clone(), ORGANIZATION, &resource);
        api.create(&PostParams::default(), &source).await?;
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let ready = json!({"type": "Ready", "status": "True", "reason": "Succeeded", "message": "",
            "observedGeneration": 1, "lastTransitionTime": now});
        let artifact = json!({
            "path": "artifact.tar.gz", "url": format!("http://{}/artifact.tar.gz", self.address),
            "revision": format!("main@sha1:{:.40}", self.digest), "digest": format!("sha256:{}", self.digest),
            "lastUpdateTime": now, "size": self.size,
        });
        let status = json!({"observedGeneration": 1, "conditions": [ready], "artifact": artifact});
        let patch = Patch::Merge(json!({"status": status}));
        let written = api.patch_status("source", &PatchParams::default(), &patch).await?;
        ensure!(written.data["status"]["artifact"].is_object(), "the source did not take its artifact");
        Ok(())
    }
}

/// A folder per Release, and one with nothing in it, packed.
fn pack(releases: usize) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("nothing"))?;
    fs::write(tree.join("nothing/kustomization.yaml"), "resources: []\n")?;
    for number in 0..releases {
        let place = tree.join(format!("release-{number:03}"));
        fs::create_dir_all(&place)?;
        let texts: Vec<String> = objects(NAMESPACE, number).iter().map(Value::to_string).collect();
        fs::write(place.join("objects.yaml"), texts.join("\n---\n"))?;
    }
    let packed = folder.path().join("artifact.tar.gz");
    let tar = Command::new("tar").arg("-czf").arg(&packed).arg("-C").arg(&tree).arg(".").status();
    ensure!(tar.context("run tar")?.success(), "tar failed");
    fs::read(&packed).context("read what tar packed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_the_names_that_flux_asks_for() {
        let crds = source_crds();
        for name in ["gitrepositories", "ocirepositories", "buckets"] {
            assert!(crds.contains(&format!("{name}.source.toolkit.fluxcd.io")), "{crds}");
        }
    }

    #[test]
    fn a_packed_folder_is_a_gzipped_archive() {
        let bytes = pack(1).unwrap();
        assert_eq!(bytes[..2], [0x1f, 0x8b]);
    }
}
