//! Kinds of which nothing is known but the conventions for conditions.

use super::{
    Verdict,
    view::{self, Condition, View},
};

pub(super) fn health(object: View<'_>) -> Verdict {
    let generation = object.generation();
    if object.int("/status/observedGeneration").is_some_and(|observed| observed < generation) {
        return view::unobserved();
    }
    let holds = |kind| object.condition(kind).filter(Condition::is_true);
    // The first that is there decides; one about an older spec decides nothing but that it is too early to say.
    let (deciding, verdict): (_, fn(&Condition<'_>) -> Verdict) = if let Some(stalled) = holds("Stalled") {
        (stalled, |c| Verdict::degraded(c.say()))
    } else if let Some(reconciling) = holds("Reconciling") {
        (reconciling, |c| Verdict::progressing(c.say()))
    } else if let Some(ready) = object.condition("Ready") {
        (ready, readiness)
    } else if let Some(failed) = holds("Failed") {
        (failed, |c| Verdict::degraded(c.say()))
    } else if let Some(available) = object.condition("Available") {
        (available, readiness)
    } else {
        return Verdict::healthy();
    };
    if deciding.is_stale(generation) { view::unobserved() } else { verdict(&deciding) }
}

/// A condition that is True when all is well. False is mostly "not yet": reasons are free text, so only what says
/// outright that it is an error is one.
fn readiness(condition: &Condition<'_>) -> Verdict {
    if condition.is_true() {
        Verdict::healthy()
    } else if condition.is_false() && condition.severity() == Some("Error") {
        Verdict::degraded(condition.say())
    } else {
        Verdict::progressing(condition.say())
    }
}
