//! All objects of a cluster at one moment, and what differs between two moments.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use kantor_testbed::snapshot::{Options, Snapshot, assert_nothing_left};
//! # async fn example(client: kube::Client) -> anyhow::Result<()> {
//! let before = Snapshot::take(&client, &Options::default()).await?;
//! // … the story, up to deleting everything again …
//! assert_nothing_left(&before, &client, Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```

use std::{collections::BTreeMap, fmt, time::Duration};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::ListParams,
    core::DynamicObject,
    discovery::{ApiResource, Discovery, verbs},
};
use serde_json::Value;
use tokio::time::Instant;

mod diff;
mod normal;

pub use diff::{Change, Diff, Difference};
pub use normal::Options;

/// Kinds that are listed at the same time.
const PARALLEL: usize = 8;
/// Objects of one page of a list.
const PAGE: u32 = 500;
/// Pause between two looks of [`nothing_left`].
const AGAIN: Duration = Duration::from_millis(100);
/// Time between two readings that must be the same in [`Snapshot::settled`].
const SETTLED: Duration = Duration::from_millis(500);

/// What identifies an object, across versions of its API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if self.namespace.is_empty() {
            write!(f, " {}", self.name)
        } else {
            write!(f, " {}/{}", self.namespace, self.name)
        }
    }
}

/// All objects of all kinds of a cluster, without what changes by itself; see [`Options`].
#[derive(Clone, Debug)]
pub struct Snapshot {
    options: Options,
    objects: BTreeMap<Key, Value>,
}

impl Snapshot {
    /// Reads the whole cluster: every kind that can be listed, each in its most stable version.
    ///
    /// The lists are read one after another, so a cluster that is changing gives a blurred picture.
    pub async fn take(client: &Client, options: &Options) -> anyhow::Result<Self> {
        let discovery = Discovery::new(client.clone()).run_aggregated().await.context("discovery")?;
        // Not the preferred version of each group: it lacks the kinds that only another version serves.
        let kinds: Vec<ApiResource> = discovery
            .groups()
            .flat_map(kube::discovery::ApiGroup::resources_by_stability)
            .filter(|(_, capabilities)| capabilities.supports_operation(verbs::LIST))
            .map(|(kind, _)| kind)
            .filter(|kind| !options.ignores_kind(&kind.group, &kind.kind))
            .collect();
        let lists: Vec<Vec<(Key, Value)>> = stream::iter(kinds)
            .map(|kind| async move { list(client, &kind, options).await })
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await?;
        Ok(Self { options: options.clone(), objects: lists.into_iter().flatten().collect() })
    }

    /// Reads the whole cluster until two readings in a row, half a second apart, are the same.
    ///
    /// A new cluster goes on making things for a while after it says that it is ready (the Service `kubernetes`,
    /// namespaces, nodes), and so does every controller.
    pub async fn settled(client: &Client, options: &Options, deadline: Duration) -> anyhow::Result<Self> {
        let until = Instant::now() + deadline;
        let mut last = Self::take(client, options).await?;
        loop {
            tokio::time::sleep(SETTLED).await;
            let next = Self::take(client, options).await?;
            let diff = last.diff(&next);
            if diff.is_empty() {
                return Ok(next);
            }
            ensure!(Instant::now() < until, "still changing after {deadline:?}:\n{diff}");
            last = next;
        }
    }

    /// What is different in `after`.
    pub fn diff(&self, after: &Self) -> Diff {
        Diff::between(&self.objects, &after.objects)
    }

    /// The objects, normalised: values of Secrets are digests.
    pub fn objects(&self) -> &BTreeMap<Key, Value> {
        &self.objects
    }

    /// One object, normalised.
    pub fn get(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        let [group, kind, namespace, name] = [group, kind, namespace, name].map(ToOwned::to_owned);
        self.objects.get(&Key { group, kind, namespace, name })
    }
}

async fn list(client: &Client, kind: &ApiResource, options: &Options) -> anyhow::Result<Vec<(Key, Value)>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let mut page = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let list = match api.list(&page).await {
            Ok(list) => list,
            // The kind was removed since discovery, and its objects with it.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            Err(error) => {
                return Err(error).with_context(|| format!("list of {}.{}", kind.plural, kind.group));
            }
        };
        for object in list.items {
            let key = Key {
                group: kind.group.clone(),
                kind: kind.kind.clone(),
                namespace: object.metadata.namespace.clone().unwrap_or_default(),
                name: object.metadata.name.clone().unwrap_or_default(),
            };
            let value = serde_json::to_value(object)?;
            if let Some(value) = options.normalise(&key, value) {
                found.push((key, value));
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// Looks again and again until the cluster is as it was `before`; the difference that stayed is the error.
pub async fn nothing_left(before: &Snapshot, client: &Client, deadline: Duration) -> anyhow::Result<()> {
    let until = Instant::now() + deadline;
    let mut left = anyhow::anyhow!("the cluster could not be read within {deadline:?}");
    // A reading that the deadline cuts off leaves the word to the one before it.
    while let Ok(found) = tokio::time::timeout_at(until, Snapshot::take(client, &before.options)).await {
        left = match found.map(|after| before.diff(&after)) {
            Ok(diff) if diff.is_empty() => return Ok(()),
            Ok(diff) => anyhow::anyhow!("not as before after {deadline:?}:\n{diff}"),
            // A kind that comes or goes may fail its list for a moment.
            Err(error) => error,
        };
        tokio::time::sleep_until(until.min(Instant::now() + AGAIN)).await;
    }
    Err(left)
}

/// Fails the test with the difference unless the cluster becomes as it was `before` within the deadline.
pub async fn assert_nothing_left(before: &Snapshot, client: &Client, deadline: Duration) {
    let result = nothing_left(before, client, deadline).await;
    assert!(result.is_ok(), "{:#}", result.err().unwrap_or_else(|| anyhow::anyhow!("unreachable")));
}
