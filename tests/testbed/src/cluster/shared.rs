//! Clusters that tests use one after another.
//!
//! To start a cluster costs many times what most tests cost. So a test borrows one that runs, alone: what it does there
//! concerns nobody else, whatever its objects are called and however often it asks. When the test is over, the cluster is put
//! back to what it was right after its start, in etcd itself, where no finalizer and no controller is in the way. The test
//! fails if that does not come to an end. A cluster is not used again if a test failed on it, broke it, or changed what it
//! serves or its nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Deref,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Node, NodeSpec};
use kube::{Api, Client, Discovery, ResourceExt, api::ListParams};

use super::{
    Cluster, ClusterBuilder,
    files::ETCD_SOCKET,
    roles::Roles,
    store::{Change, Entry, Store},
};

/// How long it may take to put a cluster back. It only passes when something is broken.
const LIMIT: Duration = Duration::from_mins(1);
/// How long nothing may change before a cluster counts as put back, or as done with its start.
const SETTLED: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(50);
/// Clusters that wait for a test. Those that wait longest are ended: each takes memory, and some time even when it is idle.
const WAITING: usize = 8;

static POOL: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// A cluster that nobody uses.
struct Idle {
    /// What the cluster was made with, beside its name.
    made_with: ClusterBuilder,
    cluster: Cluster,
    origin: Origin,
}

/// What a cluster was like after its start.
struct Origin {
    entries: BTreeMap<String, Entry>,
    served: BTreeSet<String>,
    nodes: BTreeMap<String, Option<NodeSpec>>,
}

/// A cluster that was borrowed, or one of the test's own. See the module.
pub struct SharedCluster {
    /// None only while it is dropped.
    cluster: Option<Cluster>,
    /// None for one of the test's own.
    home: Option<(ClusterBuilder, Origin)>,
}

impl From<Cluster> for SharedCluster {
    fn from(own: Cluster) -> Self {
        Self { cluster: Some(own), home: None }
    }
}

impl Deref for SharedCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.cluster.as_ref().expect("it is there until it is dropped")
    }
}

impl fmt::Debug for SharedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cluster.fmt(f)
    }
}

impl SharedCluster {
    /// Puts a borrowed cluster back to what it was, for whoever comes next. An error names what is left after `limit`. Dropping
    /// it does the same, and fails the test.
    pub fn give_back(mut self, limit: Duration) -> Result<()> {
        self.put_back(limit)
    }

    fn put_back(&mut self, limit: Duration) -> Result<()> {
        let Some((cluster, (made_with, origin))) = self.cluster.take().zip(self.home.take()) else {
            return Ok(());
        };
        if thread::panicking() || cluster.is_broken.load(Ordering::Relaxed) {
            return Ok(());
        }
        let idle = Idle { made_with, cluster, origin };
        // A runtime cannot be entered from within the test's.
        let put_back = thread::spawn(move || idle.put_back(limit)).join();
        if let Some(idle) = put_back.unwrap_or_else(|panic| std::panic::resume_unwind(panic))? {
            keep(idle);
        }
        Ok(())
    }
}

impl Drop for SharedCluster {
    fn drop(&mut self) {
        let put_back = self.put_back(LIMIT);
        assert!(put_back.is_ok(), "{put_back:#?}");
    }
}

impl ClusterBuilder {
    /// Borrows a cluster like this one that waits for somebody, or starts one.
    pub async fn share(mut self) -> Result<SharedCluster> {
        self.store = true;
        let name = std::mem::take(&mut self.name);
        if let Some(Idle { made_with, mut cluster, origin }) = take(&self) {
            cluster.kubeconfig.name = name;
            // Accounts went with the last test.
            cluster.roles = Roles::default();
            return Ok(SharedCluster { cluster: Some(cluster), home: Some((made_with, origin)) });
        }
        let cluster = self.clone().name(name).start().await?;
        let origin = Origin::of(&cluster).await.context("see what a new cluster is like")?;
        Ok(SharedCluster { cluster: Some(cluster), home: Some((self, origin)) })
    }
}

fn pool() -> MutexGuard<'static, Vec<Idle>> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(wanted: &ClusterBuilder) -> Option<Idle> {
    let mut pool = pool();
    let last = pool.iter().rposition(|idle| idle.made_with == *wanted)?;
    Some(pool.remove(last))
}

fn keep(idle: Idle) {
    let mut pool = pool();
    pool.push(idle);
    let old = (pool.len() > WAITING).then(|| pool.remove(0));
    drop(pool);
    drop(old);
}

impl Origin {
    async fn of(cluster: &Cluster) -> Result<Self> {
        let (store, client) = (store(cluster), cluster.client());
        let (started, mut since) = (Instant::now(), Instant::now());
        let mut last = BTreeMap::new();
        // A new cluster goes on making things for a while after it says that it is ready.
        while since.elapsed() < 2 * SETTLED {
            let now = store.keys().await?.into_iter().map(|(key, entry)| (key, entry.revision));
            let now: BTreeMap<_, _> = now.filter(|(key, _)| !changes_by_itself(key)).collect();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if started.elapsed() > LIMIT {
                bail!("it goes on changing");
            }
            tokio::time::sleep(PAUSE).await;
        }
        let mut entries = store.everything().await?;
        entries.retain(|key, _| !changes_by_itself(key));
        Ok(Self { entries, served: served(&client).await?, nodes: nodes(&client).await? })
    }
}

impl Idle {
    /// Puts the cluster back to what it was. None if it is not worth it.
    fn put_back(self, limit: Duration) -> Result<Option<Self>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.put_back_within(limit))
    }

    async fn put_back_within(mut self, limit: Duration) -> Result<Option<Self>> {
        let (store, client) = (store(&self.cluster), self.cluster.client());
        let (started, mut since) = (Instant::now(), Instant::now());
        loop {
            self.cluster.components.check()?;
            let different = self.origin.different(&store.keys().await?);
            if different.iter().any(|(key, _)| key.starts_with(DEFINITIONS)) {
                return Ok(None);
            }
            let left: Vec<&str> = different.iter().map(|(key, _)| key.as_str()).collect();
            let counts = left.iter().any(|key| !key.starts_with(EVENTS));
            if started.elapsed() > limit {
                bail!("{} is not what it was before the test: {left:#?}", self.cluster.name());
            }
            if !different.is_empty() {
                let changes: Vec<_> =
                    different.iter().map(|(key, put)| self.origin.change(key, *put)).collect();
                let revision = store.change(&changes).await?;
                self.origin.put(&different, &revision);
            }
            if counts {
                since = Instant::now();
            } else if since.elapsed() >= SETTLED {
                if nodes(&client).await? != self.origin.nodes {
                    return Ok(None);
                }
                if served(&client).await? == self.origin.served {
                    return Ok(Some(self));
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/";
const EVENTS: &str = "/registry/events/";

/// Whether a cluster changes what is there while nobody asks for it.
fn changes_by_itself(key: &str) -> bool {
    let by_themselves = [
        "/registry/leases/kube-system/",
        "/registry/leases/kube-node-lease/",
        "/registry/masterleases/",
        // Their status; what tests do to them is seen by `nodes`.
        "/registry/minions/",
    ];
    by_themselves.iter().any(|prefix| key.starts_with(prefix))
}

impl Origin {
    /// The keys that are not as they were, and whether they were there.
    fn different(&self, now: &BTreeMap<String, Entry>) -> Vec<(String, bool)> {
        let is_changed = |(key, entry): &(&String, &Entry)| {
            now.get(*key).is_none_or(|found| found.revision != entry.revision)
        };
        let changed = self.entries.iter().filter(is_changed).map(|(key, _)| (key.clone(), true));
        let new = now.keys().filter(|key| !changes_by_itself(key) && !self.entries.contains_key(*key));
        changed.chain(new.map(|key| (key.clone(), false))).collect()
    }

    fn change<'a>(&'a self, key: &'a str, put: bool) -> Change<'a> {
        match self.entries.get(key).filter(|_| put) {
            Some(entry) => Change::Put(key, &entry.value),
            None => Change::Delete(key),
        }
    }

    /// Notes what has been put back.
    fn put(&mut self, different: &[(String, bool)], revision: &str) {
        for (key, _) in different {
            if let Some(entry) = self.entries.get_mut(key) {
                revision.clone_into(&mut entry.revision);
            }
        }
    }
}

fn store(cluster: &Cluster) -> Store {
    Store::at(cluster.files.path(ETCD_SOCKET))
}

/// The kinds that a cluster serves.
async fn served(client: &Client) -> Result<BTreeSet<String>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await.context("discovery")?;
    let kinds = discovery.groups().flat_map(kube::discovery::ApiGroup::resources_by_stability);
    Ok(kinds.map(|(kind, _)| format!("{}/{}", kind.api_version, kind.kind)).collect())
}

async fn nodes(client: &Client) -> Result<BTreeMap<String, Option<NodeSpec>>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await.context("list the nodes")?;
    Ok(nodes.into_iter().map(|node| (node.name_any(), node.spec)).collect())
}
