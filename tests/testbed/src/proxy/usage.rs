//! What clients were allowed to do, kept for whoever wants to compare it with what they may do.

use std::{collections::BTreeSet, env, fs::File, io::Write as _};

use super::record::{Record, Records};

/// Where it is written: the path of a file to which all proxies of a test run append.
pub const KANTOR_REQUESTS: &str = "KANTOR_REQUESTS";

/// Appends `cluster verb group/resource[/subresource]` (or a path instead) for each thing that was done.
pub(super) fn note(cluster: &str, records: &Records) {
    let Some(path) = env::var_os(KANTOR_REQUESTS) else { return };
    let done = records.iter().filter(|record| was_allowed(record)).flat_map(lines);
    let done: BTreeSet<String> = done.map(|line| format!("{cluster} {line}\n")).collect();
    let text = String::from_iter(done);
    // One write: others append to it as well. It is there for a report; a test does not fail for want of it.
    let file = File::options().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}

/// Whether the server let it happen, to the client itself.
fn was_allowed(record: &Record) -> bool {
    record.impersonate.is_none() && record.forwarded && !matches!(record.code(), None | Some(401 | 403))
}

fn lines(record: &Record) -> Vec<String> {
    let target = &record.target;
    if !target.is_resource() {
        return vec![format!("{} {}", target.verb, target.path)];
    }
    let subresource = target.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
    let of = format!("{}/{}{subresource}", target.group, target.resource);
    let verbs: &[&str] = match target.verb {
        // To apply what is not there yet is to create it, too.
        super::Verb::Apply if record.code() == Some(201) => &["create", "patch"],
        super::Verb::Apply => &["patch"],
        verb => &[verb.as_str()],
    };
    verbs.iter().map(|verb| format!("{verb} {of}")).collect()
}
