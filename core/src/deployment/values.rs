//! Values of configuration groups, and what their keys are called inside a container.

use std::{borrow::Cow, collections::BTreeSet};

use kantor_api::{
    ConfigurationGroup,
    configuration_group::{ConfigurationEntry, ConfigurationValue},
};

/// What a key of a configuration group has for an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held<'a> {
    /// A value for everybody to read.
    Plain(&'a str),
    /// A value in the vault, at this path.
    Vault(&'a str),
}

/// Names of the sets of `group` in which `environment` is.
pub(super) fn sets_of<'g>(group: &'g ConfigurationGroup, environment: &str) -> BTreeSet<&'g str> {
    let sets = group.spec.environment_groups.iter();
    sets.filter(|set| set.environments.iter().any(|name| name == environment))
        .map(|set| set.name.as_str())
        .collect()
}

/// What `entry` has for `environment`, which is in these sets: its own value, else the first of a set.
pub(super) fn held<'a>(
    entry: &'a ConfigurationEntry,
    environment: &str,
    sets: &BTreeSet<&str>,
) -> Option<Held<'a>> {
    let of_set = |value: &&ConfigurationValue| {
        value.environment_group_ref.as_deref().is_some_and(|set| sets.contains(set))
    };
    let own = entry.values.iter().find(|value| value.environment.as_deref() == Some(environment));
    let value = own.or_else(|| entry.values.iter().find(of_set))?;
    let set = |text: &'a Option<String>| text.as_deref().filter(|text| !text.is_empty());
    set(&value.value).map(Held::Plain).or_else(|| set(&value.vault_key).map(Held::Vault))
}

/// The environment variable that a key becomes when all keys of its source do.
pub(super) fn variable(key: &str) -> String {
    let mapped: String =
        key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if mapped.starts_with(|c: char| c.is_ascii_digit()) { format!("_{mapped}") } else { mapped }
}

/// The file that a key becomes when all keys of its source do.
pub(super) fn file_name(key: &str) -> String {
    /// What file systems take.
    const LONGEST: usize = 255;
    let mut name = String::new();
    for c in key.chars() {
        let c = if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' };
        if c != '_' || !name.ends_with('_') {
            name.push(c);
        }
    }
    match name.as_str() {
        "" => "file".to_owned(),
        "." | ".." => format!("_{name}"),
        _ => {
            name.truncate(LONGEST);
            name
        }
    }
}

/// The shortest way to write an absolute path.
pub(super) fn clean_path(path: &str) -> Cow<'_, str> {
    if is_clean(path) {
        return path.into();
    }
    let mut clean = String::with_capacity(path.len() + 1);
    // Byte by byte: looking for each slash anew takes longer where segments are short, and there may be hundreds of them.
    let mut start = 0;
    for (end, byte) in path.bytes().chain([b'/']).enumerate() {
        if byte != b'/' {
            continue;
        }
        match &path[start..end] {
            "" | "." => {}
            ".." => clean.truncate(clean.rfind('/').unwrap_or(0)),
            segment => {
                clean.push('/');
                clean.push_str(segment);
            }
        }
        start = end + 1;
    }
    if clean.is_empty() { "/".into() } else { clean.into() }
}

/// Whether a path is the shortest already; most are. It may be taken for one that is not.
fn is_clean(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.first() == Some(&b'/')
        && !bytes.ends_with(b"/")
        && !bytes.windows(2).any(|two| two[0] == b'/' && matches!(two[1], b'/' | b'.'))
}

/// A text as a value in YAML, quoted where it would be read as something else.
pub(super) fn yaml_text(text: &str) -> String {
    const WORDS: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    // What JSON quotes is quoted for YAML as well.
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
