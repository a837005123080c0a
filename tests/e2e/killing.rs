//! Stories told twice: undisturbed, and with an operator that is killed before each write, and again when the write has
//! landed and nobody has told it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use kantor_testbed::{
    proxy::{Action, Fault, FaultHandle, Mark, Match, Outcome, Proxy, Record},
    wait::{self, Seen},
};
use serde_json::Value;

use crate::{
    observing::until_connected,
    release::support::start_operator,
    support::{PATIENCE, Stage},
};

/// What users do, chapter by chapter, and what is to come of it.
pub trait Story {
    /// The operator, on its control plane.
    fn stage(&self) -> &Stage;

    fn stage_mut(&mut self) -> &mut Stage;

    /// The data planes, each by its name and behind its proxy.
    fn planes(&self) -> Vec<(&'static str, &Proxy)>;

    /// The chapters in their order.
    fn chapters(&self) -> Vec<&'static str>;

    /// Whether the operator is killed in a chapter. Of one that another story has as well, once is enough.
    fn is_killed_in(&self, _chapter: &str) -> bool {
        true
    }

    /// Does what the users do in a chapter, and waits for nothing.
    async fn tell(&self, chapter: &str);

    /// Whether the operator has done all that it had to do in a chapter.
    async fn is_over(&self, chapter: &str) -> bool;

    /// What there is at the end of a chapter, without what differs from one time to the next.
    async fn state(&self, chapter: &str) -> Vec<Value>;

    /// Fails unless everything is as it was before the first chapter.
    async fn nothing_left(&self);
}

/// Tells a story twice, and fails unless both end each chapter in the same state and leave nothing, and the operator was
/// killed before and after each write that it makes when nobody kills it.
#[expect(clippy::print_stderr, reason = "the figures of a long test, for those who ask for its output")]
pub async fn told_twice(story: &mut impl Story) {
    let start = Instant::now();
    let undisturbed = undisturbed(story).await;
    story.nothing_left().await;
    eprintln!("undisturbed: {} writes, {} s", undisturbed.count, start.elapsed().as_secs());

    let start = Instant::now();
    let mut killer = Killer::default();
    for (chapter, theirs) in story.chapters().into_iter().zip(&undisturbed.states) {
        if story.is_killed_in(chapter) {
            // It sees nothing of a chapter before its writes are watched.
            kill(story).await;
            story.tell(chapter).await;
            killer.through(story, chapter).await;
        } else {
            story.tell(chapter).await;
            over(story, chapter).await;
        }
        let mine = story.state(chapter).await;
        eprintln!("{chapter}: {} kills, {} s", killer.kills(), start.elapsed().as_secs());
        let only_in = |these: &[Value], those: &[Value]| -> Vec<String> {
            these.iter().filter(|value| !those.contains(value)).map(ToString::to_string).collect()
        };
        let differences = (only_in(&mine, theirs), only_in(theirs, &mine));
        assert_eq!(
            differences,
            (vec![], vec![]),
            "{chapter}: what there is, and what there is when nobody kills"
        );
        assert_eq!(mine.len(), theirs.len(), "{chapter}");
    }
    story.nothing_left().await;
    eprintln!(
        "{} writes undisturbed; killed {} times before and {} times after a write, in {} s; no step took longer than {} s",
        undisturbed.count,
        killer.before.len(),
        killer.after.len(),
        start.elapsed().as_secs(),
        killer.longest.as_secs()
    );
    assert!(killer.kills() >= undisturbed.count, "{} of {}", killer.kills(), undisturbed.count);
    let after: BTreeSet<Write> = killer.after.into_iter().collect();
    let before: BTreeSet<Write> = killer.before.into_iter().flatten().collect();
    for write in &undisturbed.writes {
        assert!(before.contains(write), "never killed before {write:?}");
        assert!(after.contains(write), "never killed after {write:?}");
    }
}

const CONTROL_PLANE: &str = "control plane";

/// Tells a chapter to an operator that is killed when the `nth` of its writes that `counts` has landed and nobody has told
/// it; returns that write, or nothing if the chapter is over without.
pub async fn killed_at(
    story: &mut impl Story,
    chapter: &str,
    nth: usize,
    counts: impl Fn(&Write) -> bool + Send + Sync + 'static,
) -> Option<Write> {
    kill(story).await;
    story.tell(chapter).await;
    let count = AtomicUsize::new(0);
    let rules = Rules::new(story, move |write| {
        let number = if counts(write) { count.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
        if number == nth { Fate::Lands } else { Fate::Passes }
    });
    start_operator(story.stage_mut(), &[]).await;
    let seen = rules.wait(story, chapter).await;
    kill(story).await;
    if seen == At::Landed { rules.landed() } else { None }
}

/// Where, what, whose: a write.
pub type Write = (&'static str, String);

fn write_of(place: &'static str, record: &Record) -> Write {
    let target = &record.target;
    let sub = target.subresource.as_deref().unwrap_or_default();
    let what =
        format!("{} {}/{sub} {}/{}", record.verb(), record.resource(), record.namespace(), record.name());
    (place, what)
}

fn proxies(story: &impl Story) -> Vec<(&'static str, &Proxy)> {
    let mut proxies = story.planes();
    proxies.push((CONTROL_PLANE, &story.stage().proxy));
    proxies
}

fn marks(story: &impl Story) -> Vec<Mark> {
    proxies(story).into_iter().map(|(_, proxy)| proxy.mark()).collect()
}

/// What the operator asked to be written since `marks`, beside Events.
fn writes_since(story: &impl Story, marks: &[Mark]) -> Vec<(&'static str, Record)> {
    let all = proxies(story).into_iter().zip(marks).flat_map(|((place, proxy), mark)| {
        let writes = proxy.writes_since(*mark).filter(|record| record.resource() != "events");
        writes.into_iter().map(move |record| (place, record))
    });
    all.collect()
}

/// What happens when nobody kills anybody.
struct Undisturbed {
    count: usize,
    writes: BTreeSet<Write>,
    /// What there is at the end of each chapter.
    states: Vec<Vec<Value>>,
}

async fn undisturbed(story: &impl Story) -> Undisturbed {
    let (mut count, mut writes, mut states) = (0, BTreeSet::new(), vec![]);
    for chapter in story.chapters() {
        let marks = marks(story);
        story.tell(chapter).await;
        over(story, chapter).await;
        if story.is_killed_in(chapter) {
            let all = writes_since(story, &marks);
            count += all.len();
            writes.extend(all.iter().map(|(place, record)| write_of(place, record)));
        }
        states.push(story.state(chapter).await);
    }
    Undisturbed { count, writes, states }
}

/// Waits until a chapter is over, and the operator asks for nothing more.
async fn over(story: &impl Story, chapter: &str) {
    wait::until(&format!("{chapter} is over"), PATIENCE, || async {
        Ok(if story.is_over(chapter).await { Seen::Done(()) } else { Seen::NotYet(String::new()) })
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", story.stage().operator.log()));
    idle(story).await.unwrap();
}

/// Kills the operator, and remembers at which writes.
#[derive(Default)]
struct Killer {
    /// The writes that were about to be made, per kill.
    before: Vec<Vec<Write>>,
    /// The write that had just been made, per kill.
    after: Vec<Write>,
    /// The longest time that an operator lived.
    longest: Duration,
}

impl Killer {
    fn kills(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Kills the operator at each write until a chapter is over without one: the first time a write is tried it never
    /// lands; the next time it lands alone, and nobody is told.
    async fn through(&mut self, story: &mut impl Story, chapter: &str) {
        let mut killed_before: BTreeSet<Write> = BTreeSet::new();
        loop {
            let may_land = killed_before.clone();
            let rules = Rules::new(
                story,
                move |write| {
                    if may_land.contains(write) { Fate::Lands } else { Fate::Held }
                },
            );
            start_operator(story.stage_mut(), &[]).await;
            let started = Instant::now();
            let seen = rules.wait(story, chapter).await;
            self.longest = self.longest.max(started.elapsed());
            if seen == At::TheEnd {
                return;
            }
            kill(story).await;
            if seen == At::Landed {
                let landed = rules.landed().unwrap();
                killed_before.remove(&landed);
                self.after.push(landed);
            } else {
                let held = rules.held(story);
                killed_before.extend(held.iter().cloned());
                self.before.push(held);
            }
            assert!(self.kills() < 3000, "it does not come to an end");
        }
    }
}

async fn kill(story: &impl Story) {
    story.stage().operator.kill().unwrap();
    story.stage().operator.ended().await.unwrap();
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

/// What becomes of a write.
enum Fate {
    /// It is as if nobody watched.
    Passes,
    /// It gets to its server, and its answer to nobody. So does one at most.
    Lands,
    /// It never gets anywhere, as any after the one that lands.
    Held,
}

/// What is held at all proxies.
struct Rules {
    landed: Vec<FaultHandle>,
    held: Vec<FaultHandle>,
    marks: Vec<Mark>,
    free: Arc<Mutex<Free>>,
}

/// The writes that are not held: their numbers at their proxies.
#[derive(Default)]
struct Free {
    landing: Option<(u64, Write)>,
    /// Whether the operator is about to be killed, so that nothing may land any more: nobody would count it.
    is_over: bool,
    passed: BTreeSet<(u64, &'static str)>,
}

impl Rules {
    fn new(story: &impl Story, fate: impl Fn(&Write) -> Fate + Send + Sync + 'static) -> Self {
        let (free, fate) = (Arc::new(Mutex::new(Free::default())), Arc::new(fate));
        let land = |(place, proxy): (&'static str, &Proxy)| {
            let (free, fate) = (free.clone(), fate.clone());
            let lands = move |record: &Record| {
                let (mut free, write) = (free.lock().unwrap(), write_of(place, record));
                if free.is_over || free.landing.is_some() {
                    return false;
                }
                match fate(&write) {
                    Fate::Passes => drop(free.passed.insert((record.seq, place))),
                    Fate::Lands => free.landing = Some((record.seq, write)),
                    Fate::Held => {}
                }
                free.landing.is_some()
            };
            proxy.fault(Fault::when(writes().that(lands)).then(Action::HoldAfter)).may_miss()
        };
        let landed = proxies(story).into_iter().map(land).collect();
        // Asked after the rule above, for each request.
        let hold = |(place, proxy): (&'static str, &Proxy)| {
            let free = free.clone();
            let is_held = move |record: &Record| {
                let free = free.lock().unwrap();
                let lands =
                    free.landing.as_ref().is_some_and(|(seq, write)| (*seq, write.0) == (record.seq, place));
                !lands && !free.passed.contains(&(record.seq, place))
            };
            proxy.fault(Fault::when(writes().that(is_held)).then(Action::HoldBefore)).may_miss()
        };
        let held = proxies(story).into_iter().map(hold).collect();
        let marks = marks(story);
        for ((_, proxy), mark) in proxies(story).into_iter().zip(&marks) {
            // Of operators that are dead; they add up.
            proxy.forget_before(*mark);
        }
        Self { landed, held, marks, free }
    }

    /// Waits until a write has landed or is held, or until the chapter is over and the operator asks for nothing more.
    async fn wait(&self, story: &impl Story, chapter: &str) -> At {
        wait::until(&format!("something is written, or {chapter} is over"), PATIENCE, || async {
            if let Some(at) = self.reached(story) {
                return Ok(Seen::Done(at));
            }
            if !story.is_over(chapter).await {
                return Ok(Seen::NotYet("the chapter is not over, and nothing is written".to_owned()));
            }
            // One that found everything done has looked at it all.
            story.stage().operator.ready().await?;
            until_connected(story.stage()).await;
            idle(story).await?;
            Ok(Seen::Done(self.reached(story).unwrap_or(At::TheEnd)))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", story.stage().operator.log()))
    }

    fn reached(&self, story: &impl Story) -> Option<At> {
        let hits = |handles: &[FaultHandle]| handles.iter().any(|handle| handle.hits() > 0);
        let mut free = self.free.lock().unwrap();
        let Some((seq, write)) = free.landing.clone() else {
            free.is_over = hits(&self.held);
            return free.is_over.then_some(At::Write);
        };
        drop(free);
        // Not before its server has answered, unless the operator no longer waits for it.
        let over =
            proxies(story).into_iter().zip(&self.marks).filter(|((place, _), _)| *place == write.0).any(
                |((_, proxy), mark)| {
                    proxy.since(*mark).iter().any(|record| record.seq == seq && record.is_over())
                },
            );
        (over || hits(&self.landed)).then_some(At::Landed)
    }

    /// The write that landed.
    fn landed(&self) -> Option<Write> {
        self.free.lock().unwrap().landing.clone().map(|(_, write)| write)
    }

    /// The writes that were held when the operator was killed.
    fn held(&self, story: &impl Story) -> Vec<Write> {
        let writes = writes_since(story, &self.marks);
        for (_, record) in &writes {
            assert!(!matches!(record.outcome, Outcome::Answered(_)), "{record}");
        }
        writes.iter().map(|(place, record)| write_of(place, record)).collect()
    }
}

fn writes() -> Match {
    Match::new().writes().without("events")
}

/// Waits until the operator asks for nothing, beside whether the planes are still there.
async fn idle(story: &impl Story) -> anyhow::Result<()> {
    let is_probe = |record: &Record| {
        record.resource().is_empty() || (record.resource() == "namespaces" && record.name() == "kube-system")
    };
    wait::until("the operator is idle", PATIENCE, || async {
        let marks = marks(story);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let asked = proxies(story).into_iter().zip(marks).flat_map(|((place, proxy), mark)| {
            let requests = proxy.since(mark).filter(|record| place == CONTROL_PLANE || !is_probe(record));
            requests.iter().map(|record| format!("{place}: {record}")).collect::<Vec<_>>()
        });
        let asked: Vec<String> = asked.collect();
        Ok(if asked.is_empty() { Seen::Done(()) } else { Seen::NotYet(asked.join("\n")) })
    })
    .await
}
