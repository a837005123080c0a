//! What answers behind pods: for each container port of a running pod, a server at the pod's address.
//!
//! There is one listener for each port number, since before the first pod that has it runs: a connection to a pod of
//! which we have not heard yet waits a moment, where a closed port would make Envoy fail a request.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use tokio::{
    net::TcpStream,
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    network::Network,
    server::{self, Question, Reply, reply},
};

/// Pods of Envoy Gateway's own proxies have it: the real Envoy listens for them.
const OWNING_GATEWAY: &str = "gateway.envoyproxy.io/owning-gateway-name";

/// Watches the pods of a cluster and answers for them, until it is dropped.
pub(super) struct Backends(JoinHandle<()>);

impl Backends {
    /// Call it within the runtime that shall drive the watch; the servers run in the network of the data.
    pub(super) fn start(client: Client, network: &Network, linger: Duration) -> Self {
        let mut pods = Pods {
            network: network.handle().clone(),
            linger,
            ports: BTreeSet::new(),
            table: Arc::new(watch::Sender::default()),
        };
        Self(tokio::spawn(async move {
            let events = watcher(Api::<Pod>::all(client), watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events);
            // An error is told to the log and tried again; the stream itself never ends.
            loop {
                match events.try_next().await {
                    Ok(Some(event)) => pods.see(event),
                    Ok(None) => return,
                    Err(error) => tracing::debug!(%error, "cannot watch pods"),
                }
            }
        }))
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Who is at an address: a pod that runs, or nobody since its pod is gone.
type Table = HashMap<IpAddr, Option<Arc<Host>>>;

/// A pod that runs.
struct Host {
    uid: String,
    echoes: BTreeMap<u16, Echo>,
}

struct Pods {
    network: Handle,
    linger: Duration,
    /// Those with a listener.
    ports: BTreeSet<u16>,
    table: Arc<watch::Sender<Table>>,
}

impl Pods {
    fn see(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => self.open(&pod),
            watcher::Event::Delete(pod) => self.close(&pod),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }

    fn open(&mut self, pod: &Pod) {
        if pod.labels().contains_key(OWNING_GATEWAY) {
            return;
        }
        let echoes = echoes(pod);
        for port in echoes.keys() {
            if self.ports.insert(*port) {
                self.network.spawn(serve(*port, self.table.subscribe()));
            }
        }
        let (Some(address), Some(uid)) = (address(pod), pod.uid()) else { return };
        self.table.send_if_modified(|table| {
            let new = !runs(table, address, &uid);
            if new {
                table.insert(address, Some(Arc::new(Host { uid, echoes })));
            }
            new
        });
    }

    fn close(&self, pod: &Pod) {
        let (Some(address), Some(uid)) = (address(pod), pod.uid()) else { return };
        let (table, linger) = (Arc::clone(&self.table), self.linger);
        self.network.spawn(async move {
            sleep(linger).await;
            table.send_if_modified(|table| {
                let still = runs(table, address, &uid);
                if still {
                    table.insert(address, None);
                }
                still
            });
        });
    }
}

/// True if the address belongs to this pod.
fn runs(table: &Table, address: IpAddr, uid: &str) -> bool {
    matches!(table.get(&address), Some(Some(host)) if host.uid == uid)
}

/// The address of a pod that runs.
fn address(pod: &Pod) -> Option<IpAddr> {
    let status = pod.status.as_ref()?;
    (status.phase.as_deref() == Some("Running")).then(|| status.pod_ip.as_ref()?.parse().ok())?
}

/// Who answers at a port.
struct Echo {
    pod: String,
    namespace: String,
    container: String,
    image: String,
    port: u16,
}

fn echoes(pod: &Pod) -> BTreeMap<u16, Echo> {
    let mut echoes = BTreeMap::new();
    for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
        for port in container.ports.iter().flatten() {
            let Ok(port) = u16::try_from(port.container_port) else { continue };
            let echo = Echo {
                pod: pod.name_any(),
                namespace: pod.namespace().unwrap_or_default(),
                container: container.name.clone(),
                image: container.image.clone().unwrap_or_default(),
                port,
            };
            echoes.insert(port, echo);
        }
    }
    echoes
}

/// Listens at a port of all pods. Ends with the network, or with the watch of the pods.
async fn serve(port: u16, table: watch::Receiver<Table>) {
    match server::listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await {
        Ok(listener) => server::accept(listener, move |stream| answer(stream, table.clone())).await,
        Err(error) => tracing::warn!(%error, "pods do not answer at this port"),
    }
}

/// Answers for the pod that has the address to which the connection was made, for as long as one has it: kwok gives an
/// address anew at once, and Envoy then goes on with the connections that it has.
async fn answer(stream: TcpStream, mut table: watch::Receiver<Table>) {
    const PATIENCE: Duration = Duration::from_secs(5);
    let Ok(address) = stream.local_addr() else { return };
    if timeout(PATIENCE, table.wait_for(|table| table.contains_key(&address.ip()))).await.is_err() {
        return;
    }
    let now = table.clone();
    let conversation = server::converse(stream, move |question| {
        let host = now.borrow().get(&address.ip()).cloned().flatten();
        let echo = host.as_ref().and_then(|host| host.echoes.get(&address.port()));
        std::future::ready(match echo {
            Some(echo) => echo.answer(&question),
            None => reply(503, "text/plain", "this pod has no such port"),
        })
    });
    tokio::select! {
        () = conversation => {}
        _ = table.wait_for(|table| !matches!(table.get(&address.ip()), Some(Some(_)))) => {}
    }
}

impl Echo {
    /// Tells who answers, and what arrived.
    fn answer(&self, question: &Question) -> Reply {
        let mut headers: BTreeMap<&str, String> = BTreeMap::new();
        for (name, value) in question.headers() {
            let value = String::from_utf8_lossy(value.as_bytes());
            let all = headers.entry(name.as_str()).or_default();
            *all = if all.is_empty() { value.into_owned() } else { format!("{all}, {value}") };
        }
        let told = json!({
            "pod": self.pod,
            "namespace": self.namespace,
            "container": self.container,
            "image": self.image,
            "port": self.port,
            "method": question.method().as_str(),
            "path": question.uri().path(),
            "query": question.uri().query(),
            "headers": headers,
            "body": String::from_utf8_lossy(question.body()),
        });
        reply(200, "application/json", told.to_string())
    }
}
