//! The operator is killed before each write of a story, and again when the write has landed and nobody has told it.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use kantor_api::Release;
use kantor_testbed::{
    proxy::{Action, Fault, FaultHandle, Mark, Match, Outcome, Proxy, Record},
    snapshot::{Options, Snapshot, assert_nothing_left},
    wait::{self, Seen},
};
use kube::Api;
use serde_json::Value;

use super::cast::{Objects, Others, gateway, theatre};
use crate::{
    release::support::{Theatre, start_operator},
    support::{PATIENCE, is_ready},
};

/// Where, what, whose: a write.
type Write = (&'static str, String);

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_each_write_the_operator_ends_where_it_would_have() {
    let full = std::env::var_os("KANTOR_FULL").is_some();
    let objects = if full { Objects::sixty() } else { Objects::few() };
    let mut theatre = theatre().await;
    let others = Others::settle(&theatre.plane).await;
    let _gateway = gateway(&theatre.plane);
    let before = theatre.snapshot().await;
    let control_before =
        Snapshot::settled(&theatre.stage.client, &Options::default(), PATIENCE).await.unwrap();
    let others_before = others.now(&theatre.plane).await;

    let undisturbed = undisturbed(&theatre, &objects).await;
    theatre.nothing_left(&before).await;

    let start = Instant::now();
    let mut killer = Killer::default();
    let mut states = vec![];
    for (name, objects) in objects.chapters() {
        // It sees nothing of a chapter before its writes are watched.
        kill(&theatre).await;
        tell(&theatre, name, &objects).await;
        killer.through(&mut theatre, Chapter::Ready).await;
        states.push(state(&theatre, &objects).await);
        eprintln!("{name}: {} kills, {} s", killer.kills(), start.elapsed().as_secs());
    }
    for (mine, theirs) in states.iter().flatten().zip(undisturbed.states.iter().flatten()) {
        assert_eq!(mine, theirs);
    }
    kill(&theatre).await;
    theatre.ask_to_delete("story").await;
    killer.through(&mut theatre, Chapter::Gone).await;

    theatre.nothing_left(&before).await;
    assert_nothing_left(&control_before, &theatre.stage.client, PATIENCE).await;
    assert_eq!(others.now(&theatre.plane).await, others_before);
    eprintln!(
        "{} writes undisturbed; killed {} times before and {} times after a write, in {} s",
        undisturbed.count,
        killer.before.len(),
        killer.after.len(),
        start.elapsed().as_secs()
    );
    assert!(killer.kills() >= undisturbed.count, "{} of {}", killer.kills(), undisturbed.count);
    let after: BTreeSet<Write> = killer.after.into_iter().collect();
    let before: BTreeSet<Write> = killer.before.into_iter().flatten().collect();
    for write in &undisturbed.writes {
        assert!(before.contains(write), "never killed before {write:?}");
        assert!(after.contains(write), "never killed after {write:?}");
    }
}

async fn tell(theatre: &Theatre, chapter: &str, objects: &Objects) {
    if chapter == "applied" {
        theatre.create("story", &objects.resources()).await;
    } else {
        theatre.edit("story", &objects.resources()).await;
    }
}

/// What happens when nobody kills anybody.
struct Undisturbed {
    count: usize,
    writes: BTreeSet<Write>,
    /// The objects of the Release at the end of each chapter.
    states: Vec<Vec<Value>>,
}

async fn undisturbed(theatre: &Theatre, objects: &Objects) -> Undisturbed {
    let (here, there) = (theatre.stage.proxy.mark(), theatre.plane.proxy.mark());
    let mut states = vec![];
    for (name, objects) in objects.clone().chapters() {
        tell(theatre, name, &objects).await;
        theatre.ready("story").await;
        theatre.quiet().await;
        states.push(state(theatre, &objects).await);
    }
    theatre.delete("story").await;
    let named = |place, proxy: &Proxy, mark| {
        let writes = proxy.writes_since(mark).filter(|record| record.resource() != "events");
        writes.iter().map(|record| write_of(place, record)).collect::<Vec<_>>()
    };
    let mut all = named("control plane", &theatre.stage.proxy, here);
    all.extend(named("plane", &theatre.plane.proxy, there));
    Undisturbed { count: all.len(), writes: all.into_iter().collect(), states }
}

fn write_of(place: &'static str, record: &Record) -> Write {
    let target = &record.target;
    let sub = target.subresource.as_deref().unwrap_or_default();
    let what =
        format!("{} {}/{sub} {}/{}", record.verb(), record.resource(), record.namespace(), record.name());
    (place, what)
}

/// How a chapter ends.
#[derive(Clone, Copy)]
enum Chapter {
    Ready,
    Gone,
}

impl Chapter {
    async fn is_over(self, theatre: &Theatre) -> bool {
        let api: Api<Release> = Api::namespaced(theatre.stage.client.clone(), "acme");
        match (self, api.get_opt("story").await.unwrap()) {
            (Self::Gone, found) => found.is_none(),
            (Self::Ready, found) => found.is_some_and(|release| {
                is_ready(&release) && release.status.as_ref().is_some_and(|status| status.removing.is_empty())
            }),
        }
    }
}

/// Kills the operator, and remembers at which writes.
#[derive(Default)]
struct Killer {
    /// The writes that were about to be made, per kill.
    before: Vec<Vec<Write>>,
    /// The write that had just been made, per kill.
    after: Vec<Write>,
}

impl Killer {
    fn kills(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Kills the operator at each write until a chapter is over without one: the first time a write is tried it never
    /// lands; the next time it lands alone, and nobody is told.
    async fn through(&mut self, theatre: &mut Theatre, chapter: Chapter) {
        let mut killed_before: BTreeSet<Write> = BTreeSet::new();
        loop {
            let rules = Rules::new(theatre, &killed_before);
            start_operator(&mut theatre.stage, &[]).await;
            let seen = rules.wait(theatre, chapter).await;
            if seen == At::TheEnd {
                return;
            }
            kill(theatre).await;
            if seen == At::Landed {
                let landed = rules.landing.lock().unwrap().take().unwrap().1;
                killed_before.remove(&landed);
                self.after.push(landed);
            } else {
                let held = rules.held(theatre);
                killed_before.extend(held.iter().cloned());
                self.before.push(held);
            }
            assert!(self.kills() < 3000, "it does not come to an end");
        }
    }
}

async fn kill(theatre: &Theatre) {
    theatre.stage.operator.kill().unwrap();
    theatre.stage.operator.ended().await.unwrap();
}

/// Where the operator is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before a write that has not been tried before.
    Write,
    /// A write has landed, and the operator has not been told.
    Landed,
    /// There is nothing to write.
    TheEnd,
}

/// What is held at both proxies. Exactly one write, among those that may, gets to its server, and its answer to nobody.
struct Rules {
    landed: [FaultHandle; 2],
    held: [FaultHandle; 2],
    marks: [Mark; 2],
    landing: Landing,
}

/// The write that lands: its number at its proxy, and what it is.
type Landing = Arc<Mutex<Option<(u64, Write)>>>;

impl Rules {
    fn new(theatre: &Theatre, may_land: &BTreeSet<Write>) -> Self {
        let landing = Landing::default();
        let landed = proxies(theatre).map(|(place, proxy)| {
            let (landing, may_land) = (landing.clone(), may_land.clone());
            let is_chosen = move |record: &Record| {
                let (mut landing, write) = (landing.lock().unwrap(), write_of(place, record));
                let chosen = landing.is_none() && may_land.contains(&write);
                if chosen {
                    *landing = Some((record.seq, write));
                }
                chosen
            };
            proxy.fault(Fault::when(writes().that(is_chosen)).then(Action::HoldAfter))
        });
        // Asked after the rule above, for each request.
        let held = proxies(theatre).map(|(place, proxy)| {
            let landing = landing.clone();
            let is_other = move |record: &Record| {
                let landing = landing.lock().unwrap();
                landing.as_ref().is_none_or(|(seq, write)| (*seq, write.0) != (record.seq, place))
            };
            proxy.fault(Fault::when(writes().that(is_other)).then(Action::HoldBefore))
        });
        Self { landed, held, marks: proxies(theatre).map(|(_, proxy)| proxy.mark()), landing }
    }

    /// Waits until a write has landed or is held, or until the chapter is over and the operator asks for nothing more.
    async fn wait(&self, theatre: &Theatre, chapter: Chapter) -> At {
        wait::until("something is written, or the chapter is over", PATIENCE, || async {
            if let Some(at) = self.reached(theatre) {
                return Ok(Seen::Done(at));
            }
            if !chapter.is_over(theatre).await {
                return Ok(Seen::NotYet("the chapter is not over, and nothing is written".to_owned()));
            }
            // One that found everything done has looked at it all.
            theatre.stage.operator.ready().await?;
            idle(theatre).await?;
            Ok(Seen::Done(self.reached(theatre).unwrap_or(At::TheEnd)))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", theatre.stage.operator.log()))
    }

    fn reached(&self, theatre: &Theatre) -> Option<At> {
        let hits = |handles: &[FaultHandle]| handles.iter().any(|handle| handle.hits() > 0);
        let landing = self.landing.lock().unwrap().clone();
        let Some((seq, write)) = landing else { return hits(&self.held).then_some(At::Write) };
        // Not before its server has answered, unless the operator no longer waits for it.
        let over = proxies(theatre)
            .into_iter()
            .filter(|(place, _)| *place == write.0)
            .any(|(_, proxy)| proxy.requests().iter().any(|record| record.seq == seq && record.is_over()));
        (over || hits(&self.landed)).then_some(At::Landed)
    }

    /// The writes that were held when the operator was killed.
    fn held(&self, theatre: &Theatre) -> Vec<Write> {
        let all = proxies(theatre).into_iter().zip(self.marks).flat_map(|((place, proxy), mark)| {
            let writes = proxy.writes_since(mark).filter(|record| record.resource() != "events");
            assert!(!writes.iter().any(|record| matches!(record.outcome, Outcome::Answered(_))), "{writes}");
            writes.iter().map(|record| write_of(place, record)).collect::<Vec<_>>()
        });
        all.collect()
    }
}

fn writes() -> Match {
    Match::new().writes().without("events")
}

fn proxies(theatre: &Theatre) -> [(&'static str, &Proxy); 2] {
    [("control plane", &theatre.stage.proxy), ("plane", &theatre.plane.proxy)]
}

/// Waits until the operator asks neither of both for anything, beside whether the plane is still there.
async fn idle(theatre: &Theatre) -> anyhow::Result<()> {
    let is_probe = |record: &Record| {
        record.resource().is_empty() || (record.resource() == "namespaces" && record.name() == "kube-system")
    };
    wait::until("the operator is idle", PATIENCE, || async {
        let (here, there) = (theatre.stage.proxy.mark(), theatre.plane.proxy.mark());
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let requests = theatre.stage.proxy.since(here);
        let calls = theatre.plane.proxy.since(there).filter(|record| !is_probe(record));
        let idle = requests.is_empty() && calls.is_empty();
        Ok(if idle { Seen::Done(()) } else { Seen::NotYet(format!("{requests}\n{calls}")) })
    })
    .await
}

/// The objects of the Release as they are, without what differs from one time to the next.
async fn state(theatre: &Theatre, objects: &Objects) -> Vec<Value> {
    let release = theatre.ready("story").await;
    let of_release = release.metadata.uid.unwrap();
    let mut state = vec![];
    for (kind, namespace, name) in objects.places() {
        let object = theatre.plane.get(&kind, &namespace, &name).await.unwrap();
        let own = object["metadata"]["uid"].as_str().unwrap().to_owned();
        let text = object.to_string().replace(&of_release, "release").replace(&own, "own");
        let mut object: Value = serde_json::from_str(&text).unwrap();
        let whole = object.as_object_mut().unwrap();
        whole.remove("status");
        let metadata = whole["metadata"].as_object_mut().unwrap();
        for field in ["resourceVersion", "creationTimestamp", "managedFields", "generation"] {
            metadata.remove(field);
        }
        metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
            .unwrap()
            .remove("openchoreo.dev/intent-hash");
        if let Some(spec) = whole.get_mut("spec").and_then(Value::as_object_mut) {
            // Given out by the server: addresses, ports, claims.
            for field in
                ["clusterIP", "clusterIPs", "healthCheckNodePort", "claimRef", "nodeName", "volumeName"]
            {
                spec.remove(field);
            }
            let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        }
        if kind == "v1/Pod" {
            // The name of its token's volume.
            whole.remove("spec");
        }
        state.push(object);
    }
    state
}
