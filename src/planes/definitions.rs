//! Definitions of custom resources on a plane, and why one of them is not served.

use serde::Deserialize;

/// What is known of the definitions of custom resources in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Definitions {
    /// They have been listed: those that the group has.
    Listed(Vec<Definition>),
    /// They have not been listed, or cannot be at the moment.
    Unread,
    /// They may not be listed.
    Forbidden {
        /// Whether what the plane serves can be relied on without them: it said that it is ready, some time has passed, and
        /// it was never seen to serve the group.
        settled: bool,
    },
}

/// A definition of a custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    /// Its plural, by which it is served.
    pub(super) plural: String,
    /// What it says of itself, for the case that it is not served.
    pub(super) says: Says,
}

/// What a definition that is not served says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Says {
    /// It has not been read as it now is.
    #[default]
    Unread,
    /// Its names have never been accepted: it was never served, and has no objects.
    NeverAccepted,
    /// What keeps it from being served, in words that end a sentence. It may have objects.
    Why(String),
}

/// A definition as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Its version: what it says holds for this one.
    pub(super) version: String,
    pub(super) says: Says,
}

/// Reads the definition `name` from a list that has it. None if the list is something else, or has no such definition.
pub(super) fn read(list: &[u8], name: &str) -> Option<Reading> {
    let list: List = serde_json::from_slice(list).ok()?;
    let found = list.items.into_iter().find(|item| item.metadata.name == name)?;
    let version = Some(found.metadata.resource_version.clone()).filter(|version| !version.is_empty())?;
    Some(Reading { version, says: found.says() })
}

/// Whether a definition may have this name: it becomes part of a request.
pub(super) fn is_name(name: &str) -> bool {
    const LONGEST: usize = 253;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    !name.is_empty() && name.len() <= LONGEST && name.chars().all(is_plain)
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    served: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
}

const ESTABLISHED: &str = "Established";
const NAMES_ACCEPTED: &str = "NamesAccepted";
/// Why a definition is not established whose names have never been accepted. Once they have been, the reason is another one
/// for ever, also when the names are changed to others that are taken.
const NOT_ACCEPTED: &str = "NotAccepted";

impl Item {
    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    fn says(&self) -> Says {
        let (established, accepted) = (self.condition(ESTABLISHED), self.condition(NAMES_ACCEPTED));
        let is = |condition: Option<&Condition>, status: &str| {
            condition.is_some_and(|condition| condition.status == status)
        };
        let is_refused = is(accepted, "False") && is(established, "False");
        // A server serves it only if it says of one of the two that it is True.
        if is_refused && established.is_some_and(|condition| condition.reason == NOT_ACCEPTED) {
            return Says::NeverAccepted;
        }
        let told = |condition: &Condition| format!("its condition {}", shown(condition));
        Says::Why(if self.metadata.deletion_timestamp.is_some() {
            "it is being deleted".to_owned()
        } else if let Some(condition) = accepted.filter(|condition| condition.status == "False") {
            format!("{}; give it names that no other definition has, or delete it", told(condition))
        } else if !self.spec.versions.iter().any(|version| version.served) {
            "none of its versions is served; set served of one to true, or delete it".to_owned()
        } else if let Some(condition) = established {
            told(condition)
        } else {
            format!("it has no condition {ESTABLISHED} yet")
        })
    }
}

/// `Established is False (Installing)`. What a server says is cut to what may go into a status.
fn shown(condition: &Condition) -> String {
    const LONGEST: usize = 64;
    let short =
        |text: &str| text.chars().filter(char::is_ascii_alphanumeric).take(LONGEST).collect::<String>();
    format!("{} is {} ({})", short(&condition.type_), short(&condition.status), short(&condition.reason))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    /// A condition: its type, status and reason.
    type Said = (&'static str, &'static str, &'static str);

    fn definition(conditions: &[Said], served: bool) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status, reason)| json!({"type": type_, "status": status, "reason": reason}))
            .collect();
        json!({"metadata": {"name": "widgets.example.com", "resourceVersion": "7"},
            "spec": {"versions": [{"name": "v1", "served": served, "storage": true}]},
            "status": {"conditions": conditions}})
    }

    fn reading(definition: &Value) -> Option<Reading> {
        let other = json!({"metadata": {"name": "gadgets.example.com", "resourceVersion": "8"}});
        read(json!({"items": [other, definition]}).to_string().as_bytes(), "widgets.example.com")
    }

    const TAKEN: Said = (NAMES_ACCEPTED, "False", "KindConflict");
    const ACCEPTED: Said = (NAMES_ACCEPTED, "True", "NoConflicts");

    #[test]
    fn names_that_were_never_accepted_are_proof_that_it_was_never_served() {
        for conditions in
            [[TAKEN, (ESTABLISHED, "False", NOT_ACCEPTED)], [(ESTABLISHED, "False", NOT_ACCEPTED), TAKEN]]
        {
            let found = reading(&definition(&conditions, true)).unwrap();
            assert_eq!(found, Reading { version: "7".to_owned(), says: Says::NeverAccepted });
        }
    }

    #[rstest]
    #[case::new(&[], true, "no condition Established yet")]
    #[case::only_one_of_both(&[TAKEN], true, "NamesAccepted is False (KindConflict); give it names")]
    #[case::nobody_said_that_it_is_not_established(&[TAKEN, (ESTABLISHED, "Unknown", NOT_ACCEPTED)], true, "KindConflict")]
    #[case::accepted_once(&[TAKEN, (ESTABLISHED, "False", "Installing")], true, "KindConflict")]
    #[case::served_under_its_former_names(&[TAKEN, (ESTABLISHED, "True", "InitialNamesAccepted")], true, "KindConflict")]
    #[case::accepted(&[ACCEPTED, (ESTABLISHED, "False", NOT_ACCEPTED)], true, "Established is False (NotAccepted)")]
    #[case::about_to_be_served(&[ACCEPTED, (ESTABLISHED, "False", "Installing")], true, "Established is False (Installing)")]
    #[case::served_soon(&[ACCEPTED, (ESTABLISHED, "True", "InitialNamesAccepted")], true, "Established is True")]
    #[case::no_version(&[ACCEPTED, (ESTABLISHED, "True", "InitialNamesAccepted")], false, "set served of one to true")]
    fn anything_else_is_no_proof_and_says_what_to_do(
        #[case] conditions: &[Said],
        #[case] served: bool,
        #[case] part: &str,
    ) {
        match reading(&definition(conditions, served)).unwrap().says {
            Says::Why(why) => assert!(why.contains(part), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_that_is_being_deleted_says_so() {
        let mut going = definition(&[ACCEPTED, (ESTABLISHED, "True", "InitialNamesAccepted")], true);
        going["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        assert_eq!(reading(&going).unwrap().says, Says::Why("it is being deleted".to_owned()));
    }

    #[test]
    fn what_a_server_says_is_cut() {
        let (long, strange) = ("x".repeat(1000), "a\u{1b}[31m\nb");
        let mut odd = definition(&[], true);
        odd["status"]["conditions"] = json!([
            {"type": ESTABLISHED, "status": strange, "reason": long},
        ]);
        let Says::Why(why) = reading(&odd).unwrap().says else { panic!() };
        assert!(why.len() < 120 && !why.contains(['\u{1b}', '\n']), "{why}");
    }

    #[rstest]
    #[case::nothing("")]
    #[case::a_page("<html></html>")]
    #[case::no_list(r#"{"kind": "Status"}"#)]
    #[case::another(r#"{"items": [{"metadata": {"name": "gadgets.example.com", "resourceVersion": "1"}}]}"#)]
    #[case::no_version(r#"{"items": [{"metadata": {"name": "widgets.example.com"}}]}"#)]
    fn other_answers_are_nothing_that_was_read(#[case] answer: &str) {
        assert_eq!(read(answer.as_bytes(), "widgets.example.com"), None);
    }

    #[test]
    fn only_names_that_definitions_have_are_asked_for() {
        assert!(is_name("widgets.example.com") && is_name("k8s-3.a"));
        for name in ["", "a/b", "a?b", "a&limit=9", "A.b", "a b", "%2e", &"a".repeat(254)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
