//! What happens on a cluster, with the time at which this process hears of it.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    api::DynamicObject,
    runtime::{WatchStreamExt, watcher},
};
use tokio::{sync::mpsc, task::JoinSet};

use super::stand::PATIENCE;

/// Something that happened to an object.
pub(crate) struct Sight {
    pub at: Instant,
    /// Which of the watches saw it.
    pub watch: usize,
    pub gone: bool,
    pub object: DynamicObject,
}

/// Watches that tell of changes in the order in which they come. Dropping it ends them.
pub(crate) struct Watches {
    seen: mpsc::UnboundedReceiver<Sight>,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Watches all of `apis`, and returns when they know what is there now. Sights of that are kept for the reader.
    pub(crate) async fn open(apis: Vec<(Api<DynamicObject>, &str)>) -> Result<Self> {
        let (tell, seen) = mpsc::unbounded_channel();
        let (begun, mut beginnings) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let count = apis.len();
        for (watch, (api, labels)) in apis.into_iter().enumerate() {
            let (tell, begun) = (tell.clone(), begun.clone());
            let config = watcher::Config::default().labels(labels);
            tasks.spawn(async move {
                let mut events = std::pin::pin!(watcher(api, config).default_backoff());
                while let Some(event) = events.next().await {
                    let (object, gone) = match event {
                        Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                            (object, false)
                        }
                        Ok(watcher::Event::Delete(object)) => (object, true),
                        Ok(watcher::Event::InitDone) => {
                            let _ = begun.send(());
                            continue;
                        }
                        // The watch begins anew by itself.
                        Ok(watcher::Event::Init) | Err(_) => continue,
                    };
                    if tell.send(Sight { at: Instant::now(), watch, gone, object }).is_err() {
                        return;
                    }
                }
            });
        }
        for _ in 0..count {
            let patience = Duration::from_mins(1);
            tokio::time::timeout(patience, beginnings.recv()).await.context("a watch did not begin")?;
        }
        Ok(Self { seen, _tasks: tasks })
    }

    /// The next sight, if it comes within `patience`.
    pub(crate) async fn next(&mut self, patience: Duration) -> Option<Sight> {
        tokio::time::timeout(patience, self.seen.recv()).await.ok().flatten()
    }

    /// Forgets what was seen so far.
    pub(crate) fn drain(&mut self) {
        while self.seen.try_recv().is_ok() {}
    }

    /// Shows each sight to `done` until it is satisfied; returns when that was.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        patience: Duration,
        mut done: impl FnMut(&Sight) -> bool,
    ) -> Result<Instant> {
        let deadline = Instant::now() + patience;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            match self.next(left).await {
                Some(sight) if done(&sight) => return Ok(sight.at),
                Some(_) => {}
                None => break,
            }
        }
        bail!("waited {} s until {what}", patience.as_secs())
    }

    /// Waits until nothing happened for `pause`; tells when the last change was, if there was any.
    pub(crate) async fn until_quiet(&mut self, pause: Duration) -> Option<Instant> {
        let mut last = None;
        while let Some(sight) = self.next(pause).await {
            last = Some(sight.at);
        }
        last
    }
}

/// Waits until `look` finds something in `count` objects; returns that. Lists of thousands, again and again, would keep the
/// server busy with them while the next thing is measured.
pub(crate) async fn until_all<T>(
    api: &Api<DynamicObject>,
    count: usize,
    what: &str,
    look: impl Fn(&DynamicObject) -> Option<T>,
) -> Result<Vec<T>> {
    let mut watches = Watches::open(vec![(api.clone(), "")]).await?;
    let (mut found, mut others) = (HashMap::new(), HashMap::new());
    let waited = watches.until(what, PATIENCE, |sight| {
        let name = sight.object.name_any();
        found.remove(&name);
        others.remove(&name);
        if !sight.gone {
            match look(&sight.object) {
                Some(it) => drop(found.insert(name, it)),
                None => drop(others.insert(name, sight.object.data["status"].to_string())),
            }
        }
        found.len() >= count
    });
    waited.await.with_context(|| {
        let first = others.into_values().next().unwrap_or_default();
        format!("{} of {count} objects {what}; one of the others: {first}", found.len())
    })?;
    Ok(found.into_values().collect())
}
