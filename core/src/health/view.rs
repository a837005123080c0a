//! Reading an object of which nothing is certain.

use serde_json::Value;

use super::Verdict;

/// An object; fields are named by JSON pointers. What is missing or of another type is not there.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    object: &'a Value,
}

impl<'a> View<'a> {
    pub(super) fn new(object: &'a Value) -> Self {
        Self { object }
    }

    pub(super) fn text(self, pointer: &str) -> Option<&'a str> {
        self.object.pointer(pointer)?.as_str()
    }

    pub(super) fn int(self, pointer: &str) -> Option<i64> {
        self.object.pointer(pointer)?.as_i64()
    }

    /// A number that is left out when it is zero.
    pub(super) fn count(self, pointer: &str) -> i64 {
        self.int(pointer).unwrap_or(0)
    }

    pub(super) fn flag(self, pointer: &str) -> bool {
        self.object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The elements of a list; none if there is no list.
    pub(super) fn list(self, pointer: &str) -> &'a [Value] {
        self.object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn generation(self) -> i64 {
        self.count("/metadata/generation")
    }

    /// Says so if the controller has not seen the spec as it is now. For kinds whose controllers always tell what they
    /// have seen: no word, or zero, is a controller that has not come to it yet.
    pub(super) fn not_observed(self) -> Option<Verdict> {
        let observed = self.count("/status/observedGeneration");
        (observed == 0 || observed < self.generation()).then(unobserved)
    }

    pub(super) fn condition(self, kind: &str) -> Option<Condition<'a>> {
        condition(self.list("/status/conditions"), kind)
    }
}

/// The verdict over an object whose controller has not seen its spec.
pub fn unobserved() -> Verdict {
    Verdict::progressing("the latest change has not been observed yet")
}

/// The condition of type `kind` in a list of conditions.
pub(super) fn condition<'a>(conditions: &'a [Value], kind: &str) -> Option<Condition<'a>> {
    conditions.iter().map(View::new).find(|c| c.text("/type") == Some(kind)).map(Condition)
}

/// A condition of an object.
pub(super) struct Condition<'a>(View<'a>);

impl<'a> Condition<'a> {
    pub(super) fn is_true(&self) -> bool {
        self.0.text("/status") == Some("True")
    }

    pub(super) fn is_false(&self) -> bool {
        self.0.text("/status") == Some("False")
    }

    pub(super) fn reason(&self) -> &'a str {
        self.0.text("/reason").unwrap_or_default()
    }

    pub(super) fn severity(&self) -> Option<&'a str> {
        self.0.text("/severity")
    }

    /// It is about an older spec than that of `generation`.
    pub(super) fn is_stale(&self, generation: i64) -> bool {
        self.0.int("/observedGeneration").is_some_and(|observed| observed < generation)
    }

    /// What it says.
    pub(super) fn say(&self) -> String {
        let kind = self.0.text("/type").unwrap_or_default();
        let status = self.0.text("/status").unwrap_or("Unknown");
        because(self.reason(), self.0.text("/message"))
            .unwrap_or_else(|| format!("condition {kind} is {status}"))
    }
}

/// A reason and a message as one text, if there is either.
pub(super) fn because(reason: &str, message: Option<&str>) -> Option<String> {
    match (reason, message.unwrap_or_default()) {
        ("", "") => None,
        (reason, "") => Some(reason.to_owned()),
        ("", message) => Some(message.to_owned()),
        (reason, message) => Some(format!("{reason}: {message}")),
    }
}
