//! Scenarios that run twice: undisturbed, and with an operator that is killed before each write, and again when the write has
//! landed and nobody has told it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
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
    support::{OperatorFixture, PATIENCE},
};

/// What users do, phase by phase, and what is to come of it.
pub trait Scenario {
    /// The operator, on its control plane.
    fn control(&self) -> &OperatorFixture;

    fn control_mut(&mut self) -> &mut OperatorFixture;

    /// The data planes, each by its name and behind its proxy.
    fn planes(&self) -> Vec<(&'static str, &Proxy)>;

    /// The phases in their order.
    fn phases(&self) -> Vec<&'static str>;

    /// Whether the operator is killed in a phase. Of one that another scenario has as well, once is enough.
    fn is_killed_in(&self, _chapter: &str) -> bool {
        true
    }

    /// Does what the users do in a phase, and waits for nothing.
    async fn act(&self, phase: &str);

    /// Whether the operator has done all that it had to do in a phase.
    async fn is_over(&self, phase: &str) -> bool;

    /// What there is at the end of a phase, without what differs from one time to the next.
    async fn state(&self, phase: &str) -> Vec<Value>;

    /// Fails unless everything is as it was before the first phase.
    async fn nothing_left(&self);
}

/// How many writes land, and nobody is told, before the operator is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// One: the operator is killed at each write.
    One,
    /// All that are under way at a time, of those that have been tried before: each write is among them, with fewer kills.
    All,
}

/// Runs a scenario twice, and fails unless both end each phase in the same state and leave nothing, and the operator was
/// killed before and after each write that it makes when nobody kills it.
#[expect(clippy::print_stderr, reason = "the figures of a long test, for those who ask for its output")]
pub async fn assert_crash_safe(scenario: &mut impl Scenario, landing: Landing) {
    let start = Instant::now();
    let undisturbed = undisturbed(scenario).await;
    scenario.nothing_left().await;
    eprintln!("undisturbed: {} writes, {} s", undisturbed.count, start.elapsed().as_secs());

    let start = Instant::now();
    let mut killer =
        Killer { landing, kills: 0, before: vec![], after: BTreeSet::new(), longest: Duration::ZERO };
    for (phase, theirs) in scenario.phases().into_iter().zip(&undisturbed.states) {
        if scenario.is_killed_in(phase) {
            // It sees nothing of a phase before its writes are watched.
            kill(scenario).await;
            scenario.act(phase).await;
            killer.through(scenario, phase).await;
        } else {
            scenario.act(phase).await;
            over(scenario, phase).await;
        }
        let mine = scenario.state(phase).await;
        eprintln!("{phase}: {} kills, {} s", killer.kills, start.elapsed().as_secs());
        let only_in = |these: &[Value], those: &[Value]| -> Vec<String> {
            these.iter().filter(|value| !those.contains(value)).map(ToString::to_string).collect()
        };
        let differences = (only_in(&mine, theirs), only_in(theirs, &mine));
        assert_eq!(
            differences,
            (vec![], vec![]),
            "{phase}: what there is, and what there is when nobody kills"
        );
        assert_eq!(mine.len(), theirs.len(), "{phase}");
    }
    scenario.nothing_left().await;
    eprintln!(
        "{} writes undisturbed; killed {} times, {} of them before writes, in {} s; no step took longer than {} s",
        undisturbed.count,
        killer.kills,
        killer.before.len(),
        start.elapsed().as_secs(),
        killer.longest.as_secs()
    );
    let enough = landing == Landing::All || killer.kills >= undisturbed.count;
    assert!(enough, "{} of {}", killer.kills, undisturbed.count);
    let before: BTreeSet<Write> = killer.before.into_iter().flatten().collect();
    for write in &undisturbed.writes {
        assert!(before.contains(write), "never killed before {write:?}");
        assert!(killer.after.contains(write), "never killed after {write:?}");
    }
}

const CONTROL_PLANE: &str = "control plane";

/// Tells a phase to an operator that is killed when the `nth` of its writes that `counts` has landed and nobody has told
/// it; returns that write, or nothing if the phase is over without.
pub async fn killed_at(
    scenario: &mut impl Scenario,
    phase: &str,
    nth: usize,
    counts: impl Fn(&Write) -> bool + Send + Sync + 'static,
) -> Option<Write> {
    kill(scenario).await;
    scenario.act(phase).await;
    let count = AtomicUsize::new(0);
    let rules = Rules::new(scenario, Landing::One, move |write| {
        let number = if counts(write) { count.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
        if number == nth { WriteFate::Lands } else { WriteFate::Passes }
    });
    start_operator(scenario.control_mut(), &[]).await;
    let seen = rules.wait(scenario, phase).await;
    kill(scenario).await;
    if seen == At::Landed { rules.landed(scenario).pop().map(|(write, _)| write) } else { None }
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

fn proxies(scenario: &impl Scenario) -> Vec<(&'static str, &Proxy)> {
    let mut proxies = scenario.planes();
    proxies.push((CONTROL_PLANE, &scenario.control().proxy));
    proxies
}

fn marks(scenario: &impl Scenario) -> Vec<Mark> {
    proxies(scenario).into_iter().map(|(_, proxy)| proxy.mark()).collect()
}

/// What the operator asked to be written since `marks`, beside Events.
fn writes_since(scenario: &impl Scenario, marks: &[Mark]) -> Vec<(&'static str, Record)> {
    let all = proxies(scenario).into_iter().zip(marks).flat_map(|((place, proxy), mark)| {
        let writes = proxy.writes_since(*mark).filter(|record| record.resource() != "events");
        writes.into_iter().map(move |record| (place, record))
    });
    all.collect()
}

/// What happens when nobody kills anybody.
struct Undisturbed {
    count: usize,
    writes: BTreeSet<Write>,
    /// What there is at the end of each phase.
    states: Vec<Vec<Value>>,
}

async fn undisturbed(scenario: &impl Scenario) -> Undisturbed {
    let (mut count, mut writes, mut states) = (0, BTreeSet::new(), vec![]);
    for phase in scenario.phases() {
        let marks = marks(scenario);
        scenario.act(phase).await;
        over(scenario, phase).await;
        if scenario.is_killed_in(phase) {
            let all = writes_since(scenario, &marks);
            count += all.len();
            writes.extend(all.iter().map(|(place, record)| write_of(place, record)));
        }
        states.push(scenario.state(phase).await);
    }
    Undisturbed { count, writes, states }
}

/// Waits until a phase is over, and the operator asks for nothing more.
async fn over(scenario: &impl Scenario, phase: &str) {
    wait::until(&format!("{phase} is over"), PATIENCE, || async {
        Ok(if scenario.is_over(phase).await { Seen::Done(()) } else { Seen::NotYet(String::new()) })
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", scenario.control().operator.log()));
    idle(scenario).await.unwrap();
}

/// Kills the operator, and remembers at which writes.
struct Killer {
    landing: Landing,
    kills: usize,
    /// The writes that were about to be made, per kill.
    before: Vec<Vec<Write>>,
    /// The writes that had just been made at a kill.
    after: BTreeSet<Write>,
    /// The longest time that an operator lived.
    longest: Duration,
}

impl Killer {
    /// Kills the operator at each write until a phase is over without one: the first time a write is tried it never
    /// lands; the next time it lands, and nobody is told. One that the server finds invalid has changed nothing, so that the
    /// operator does the same again, and would for ever: it is told, until something else has changed.
    async fn through(&mut self, scenario: &mut impl Scenario, phase: &str) {
        let (mut killed_before, mut invalid) = (BTreeSet::<Write>::new(), BTreeSet::<Write>::new());
        loop {
            let (may_land, told) = (killed_before.clone(), invalid.clone());
            let rules = Rules::new(scenario, self.landing, move |write| {
                if told.contains(write) {
                    WriteFate::Passes
                } else if may_land.contains(write) {
                    WriteFate::Lands
                } else {
                    WriteFate::Held
                }
            });
            start_operator(scenario.control_mut(), &[]).await;
            let started = Instant::now();
            let seen = rules.wait(scenario, phase).await;
            self.longest = self.longest.max(started.elapsed());
            if seen == At::TheEnd {
                return;
            }
            kill(scenario).await;
            self.kills += 1;
            if seen == At::Landed {
                let landed = rules.landed(scenario);
                if landed.iter().any(|(_, code)| *code != INVALID) {
                    invalid.clear();
                }
                for (write, code) in landed {
                    killed_before.remove(&write);
                    if code == INVALID {
                        invalid.insert(write.clone());
                    }
                    self.after.insert(write);
                }
            } else {
                let held = rules.held(scenario);
                killed_before.extend(held.iter().cloned());
                self.before.push(held);
            }
            assert!(self.kills < 1000, "it does not come to an end: {:?}", self.before.last());
        }
    }
}

/// What a server answers that does not take what it is sent, such as another value of a field that cannot be changed.
const INVALID: Option<u16> = Some(422);

async fn kill(scenario: &impl Scenario) {
    scenario.control().operator.kill().unwrap();
    scenario.control().operator.ended().await.unwrap();
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
enum WriteFate {
    /// It is as if nobody watched.
    Passes,
    /// It gets to its server, and its answer to nobody; so does one at most, unless all do.
    Lands,
    /// It never gets anywhere, as any after the last one that lands.
    Held,
}

/// What is held at all proxies.
struct Rules {
    landing: Landing,
    /// They last as long as this.
    _landed: Vec<FaultHandle>,
    held: Vec<FaultHandle>,
    marks: Vec<Mark>,
    free: Arc<Mutex<Free>>,
    /// How many writes there were at the last look.
    seen: AtomicU64,
}

/// The writes that are not held: their numbers at their proxies.
#[derive(Default)]
struct Free {
    landing: Vec<(u64, Write)>,
    /// Whether the operator is about to be killed, so that nothing may land any more: nobody would count it.
    is_over: bool,
    passed: BTreeSet<(u64, &'static str)>,
}

impl Rules {
    fn new(
        scenario: &impl Scenario,
        landing: Landing,
        fate: impl Fn(&Write) -> WriteFate + Send + Sync + 'static,
    ) -> Self {
        let (free, fate) = (Arc::new(Mutex::new(Free::default())), Arc::new(fate));
        let land = |(place, proxy): (&'static str, &Proxy)| {
            let (free, fate) = (free.clone(), fate.clone());
            let lands = move |record: &Record| {
                let (mut free, write) = (free.lock().unwrap(), write_of(place, record));
                if free.is_over || (landing == Landing::One && !free.landing.is_empty()) {
                    return false;
                }
                match fate(&write) {
                    WriteFate::Passes => drop(free.passed.insert((record.seq, place))),
                    WriteFate::Lands => {
                        free.landing.push((record.seq, write));
                        return true;
                    }
                    WriteFate::Held => {}
                }
                false
            };
            proxy.fault(Fault::when(writes().that(lands)).then(Action::HoldAfter)).may_miss()
        };
        let landed = proxies(scenario).into_iter().map(land).collect();
        // Asked after the rule above, for each request.
        let hold = |(place, proxy): (&'static str, &Proxy)| {
            let free = free.clone();
            let is_held = move |record: &Record| {
                let free = free.lock().unwrap();
                let lands = free.landing.iter().any(|(seq, write)| (*seq, write.0) == (record.seq, place));
                !lands && !free.passed.contains(&(record.seq, place))
            };
            proxy.fault(Fault::when(writes().that(is_held)).then(Action::HoldBefore)).may_miss()
        };
        let held = proxies(scenario).into_iter().map(hold).collect();
        let marks = marks(scenario);
        for ((_, proxy), mark) in proxies(scenario).into_iter().zip(&marks) {
            // Of operators that are dead; they add up.
            proxy.forget_before(*mark);
        }
        Self { landing, _landed: landed, held, marks, free, seen: AtomicU64::new(0) }
    }

    /// Waits until a write has landed or is held, or until the phase is over and the operator asks for nothing more.
    async fn wait(&self, scenario: &impl Scenario, phase: &str) -> At {
        wait::until(&format!("something is written, or {phase} is over"), PATIENCE, || async {
            if let Some(at) = self.reached(scenario) {
                return Ok(Seen::Done(at));
            }
            if !scenario.is_over(phase).await {
                return Ok(Seen::NotYet("the phase is not over, and nothing is written".to_owned()));
            }
            // One that found everything done has looked at it all.
            scenario.control().operator.ready().await?;
            until_connected(scenario.control()).await;
            idle(scenario).await?;
            Ok(Seen::Done(self.reached(scenario).unwrap_or(At::TheEnd)))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", scenario.control().operator.log()))
    }

    fn reached(&self, scenario: &impl Scenario) -> Option<At> {
        let landing = self.free.lock().unwrap().landing.clone();
        // Not before its server has answered, unless the operator no longer waits for it.
        let answered = |(seq, (place, _)): &(u64, Write)| {
            self.record(scenario, place, *seq)
                .is_some_and(|record| record.is_over() || matches!(record.outcome, Outcome::ReplyHeld(_)))
        };
        let held: u64 = self.held.iter().map(FaultHandle::hits).sum();
        let count = held + u64::try_from(landing.len()).unwrap();
        // More may be about to come.
        let is_growing = self.landing == Landing::All && self.seen.swap(count, Ordering::Relaxed) != count;
        if count == 0 || is_growing || !landing.iter().all(answered) {
            return None;
        }
        let mut free = self.free.lock().unwrap();
        if free.landing.len() != landing.len() {
            return None;
        }
        free.is_over = true;
        Some(if landing.is_empty() { At::Write } else { At::Landed })
    }

    /// A request to a place.
    fn record(&self, scenario: &impl Scenario, place: &str, seq: u64) -> Option<Record> {
        let (proxy, mark) = proxies(scenario)
            .into_iter()
            .zip(&self.marks)
            .find_map(|((of, proxy), mark)| (of == place).then_some((proxy, mark)))?;
        proxy.since(*mark).into_iter().find(|record| record.seq == seq)
    }

    /// The writes that landed, with what their servers answered.
    fn landed(&self, scenario: &impl Scenario) -> Vec<(Write, Option<u16>)> {
        let landing = self.free.lock().unwrap().landing.clone();
        let code = |place, seq| match self.record(scenario, place, seq)?.outcome {
            Outcome::ReplyHeld(code) | Outcome::ReplyLost(code) => Some(code),
            _ => None,
        };
        landing.into_iter().map(|(seq, write)| (write.clone(), code(write.0, seq))).collect()
    }

    /// The writes that were held when the operator was killed.
    fn held(&self, scenario: &impl Scenario) -> Vec<Write> {
        let passed = self.free.lock().unwrap().passed.clone();
        let mut writes = writes_since(scenario, &self.marks);
        writes.retain(|(place, record)| !passed.contains(&(record.seq, *place)));
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
async fn idle(scenario: &impl Scenario) -> anyhow::Result<()> {
    let is_probe = |record: &Record| {
        record.resource().is_empty() || (record.resource() == "namespaces" && record.name() == "kube-system")
    };
    wait::until("the operator is idle", PATIENCE, || async {
        let marks = marks(scenario);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let asked = proxies(scenario).into_iter().zip(marks).flat_map(|((place, proxy), mark)| {
            let requests = proxy.since(mark).filter(|record| place == CONTROL_PLANE || !is_probe(record));
            requests.iter().map(|record| format!("{place}: {record}")).collect::<Vec<_>>()
        });
        let asked: Vec<String> = asked.collect();
        Ok(if asked.is_empty() { Seen::Done(()) } else { Seen::NotYet(asked.join("\n")) })
    })
    .await
}
