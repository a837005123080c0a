//! Nothing that is printed holds a secret.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kantor::planes::{DisconnectReason, Follow};
use kantor_testbed::{KubeconfigSpec, kubeconfig::Auth};
use kube::api::ApiResource;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{Stage, is_probe, soon, token, whoami};

/// Everything that this process logs, of all crates and at all levels.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn capture() -> Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        LOG.get_or_init(|| {
            let log = Self::default();
            tracing_subscriber::fmt()
                .with_max_level(tracing::Level::TRACE)
                .with_ansi(false)
                .with_writer(log.clone())
                .init();
            log
        })
        .clone()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_logs_states_errors_or_debug_output() {
    let log = Log::capture();
    let stage = Stage::new("no-secrets").await;
    let good = stage.fresh_token("good").await;
    let certificate = stage.fresh_certificate("certain");
    let wrong = KubeconfigSpec { auth: Auth::Token("canary-token-77".to_owned()), ..good.clone() };
    let broken = KubeconfigSpec { auth: Auth::Token("canary-token-78\n".to_owned()), ..good.clone() };
    let mut printed = vec![];
    let mut note = |stage: &Stage| {
        printed.push(format!("{:?} {:?}", stage.planes, stage.planes.state(&stage.key)));
        match stage.planes.get(&stage.key) {
            Ok(plane) => printed.push(format!("{plane:?} {:#?}", plane.capabilities)),
            Err(error) => printed.push(format!("{error} {error:?}")),
        }
    };
    stage.want(&wrong);
    stage.lost(DisconnectReason::Unauthorized).await;
    note(&stage);
    stage.want(&good);
    let plane = stage.plane().await;
    let followed = plane.follow(&ApiResource::erase::<ConfigMap>(&()), "stage=none", Follow::Whole);
    soon(followed.synced()).await;
    whoami(&plane.calls()).await.unwrap();
    note(&stage);
    stage.want(&certificate);
    stage.request(|r| is_probe(r) && !r.credential.is_token(token(&good))).await;
    note(&stage);
    stage.want(&broken);
    stage.lost(DisconnectReason::InvalidAccess).await;
    note(&stage);
    let late = whoami(&plane.calls()).await.unwrap_err();
    printed.push(format!("{late} {late:?} {followed:?} {:?}", followed.state()));
    for spec in [&good, &certificate, &wrong, &broken] {
        printed.push(format!("{:?}", stage.access(spec)));
    }
    soon(stage.planes.forget(&stage.key)).await;

    let Auth::ClientCertificate(identity) = &certificate.auth else { panic!() };
    let key_line = identity.key_pem.lines().nth(1).unwrap();
    let secrets = [token(&good), "canary-token-77", "canary-token-78", key_line];
    let all = format!("{}\n{}", printed.join("\n"), log.text());
    assert!(all.contains("no-secrets") && all.contains("uses new credentials"), "the log is captured");
    for secret in secrets {
        if let Some(at) = all.find(secret) {
            let near = all[..at].rfind('\n').map_or(0, |line| line + 1);
            panic!("a secret was printed: {}", &all[near..at]);
        }
    }
}
