//! What differs between two snapshots, in a form to read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;

use super::{
    Key,
    normal::{is_secret, is_secret_path},
};

/// Characters of a value that are printed.
const SHOWN: usize = 160;

/// The difference between two snapshots.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// Objects that are only in the later one.
    pub added: Vec<Key>,
    /// Objects that are only in the earlier one.
    pub removed: Vec<Key>,
    /// Objects in both, with other content.
    pub changed: Vec<Change>,
}

/// An object with other content than before.
#[derive(Clone, Debug)]
pub struct Change {
    /// The object.
    pub key: Key,
    /// What is different in it.
    pub differences: Vec<Difference>,
}

/// One field with another value. Values of Secrets are digests, and not printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where, such as `spec.template.containers[0].image`.
    pub path: String,
    /// The value before, if there was one.
    pub before: Option<Value>,
    /// The value after, if there is one.
    pub after: Option<Value>,
    secret: bool,
}

impl Diff {
    pub(super) fn between(before: &BTreeMap<Key, Value>, after: &BTreeMap<Key, Value>) -> Self {
        let only_in = |here: &BTreeMap<Key, Value>, there: &BTreeMap<Key, Value>| {
            here.keys().filter(|key| !there.contains_key(*key)).cloned().collect()
        };
        let changed = before.iter().filter_map(|(key, old)| {
            let differences = differences(key, old, after.get(key)?);
            (!differences.is_empty()).then(|| Change { key: key.clone(), differences })
        });
        Self { added: only_in(after, before), removed: only_in(before, after), changed: changed.collect() }
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return writeln!(f, "  (no difference)");
        }
        for key in &self.added {
            writeln!(f, "  + {key}")?;
        }
        for key in &self.removed {
            writeln!(f, "  - {key}")?;
        }
        for change in &self.changed {
            writeln!(f, "  ~ {}", change.key)?;
            for difference in &change.differences {
                writeln!(f, "      {difference}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match (&self.before, &self.after) {
            (Some(_), Some(_)) if self.secret => write!(f, "{path}: changed"),
            (None, Some(_)) if self.secret => write!(f, "{path}: added"),
            (Some(before), Some(after)) => write!(f, "{path}: {} → {}", short(before), short(after)),
            (None, Some(after)) => write!(f, "{path}: added {}", short(after)),
            (Some(_), None) => write!(f, "{path}: removed"),
            (None, None) => write!(f, "{path}: same"),
        }
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn differences(key: &Key, before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), Some(before), Some(after), &mut found);
    if is_secret(key) {
        for difference in &mut found {
            difference.secret = is_secret_path(&difference.path);
        }
    }
    found
}

fn compare(path: String, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Difference>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let fields: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for field in fields {
                compare(join(&path, field), before.get(field), after.get(field), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for index in 0..before.len().max(after.len()) {
                compare(format!("{path}[{index}]"), before.get(index), after.get(index), found);
            }
        }
        (before, after) => {
            found.push(Difference { path, before: before.cloned(), after: after.cloned(), secret: false });
        }
    }
}

/// Keys that are no plain words (annotations, file names) are quoted.
fn join(path: &str, field: &str) -> String {
    if field.chars().any(|c| !c.is_ascii_alphanumeric() && c != '_') {
        format!("{path}[{field:?}]")
    } else if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

#[cfg(test)]
mod tests;
