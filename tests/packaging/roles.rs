//! The roles hold nothing that the operator does not use: compared with what it did in its tests, by `make test`.

use std::{collections::BTreeSet, env, fs};

use kantor::commands::rbac::{Right, Subject, control_plane, data_plane, lease};

use crate::support::skipped;

/// What no test asks for by itself, and why it is there all the same.
const UNSEEN: &[(&str, &str)] =
    &[("update openchoreo.dev/deployments/finalizers", "asked for by admission, when Endpoints are made")];

/// Each verb with each resource, as the proxies write it.
fn uses(rights: &[Right]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for right in rights {
        for verb in right.verbs {
            match &right.of {
                Subject::Paths(paths) => all.extend(paths.iter().map(|path| format!("{verb} {path}"))),
                Subject::Resources { group, resources, .. } => {
                    all.extend(resources.iter().map(|resource| format!("{verb} {group}/{resource}")));
                }
            }
        }
    }
    all
}

#[test]
fn no_rule_is_there_that_the_tests_did_not_need() {
    let Some(path) = env::var_os("KANTOR_REQUESTS") else {
        skipped("what the operator did is not known; `make test` collects it");
        return;
    };
    // The tests of the operator come first, by the names of their programs.
    let text = fs::read_to_string(path).unwrap();
    let done = |on_control_plane: bool| -> BTreeSet<String> {
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .filter(|(cluster, _)| (*cluster == "control-plane") == on_control_plane)
            .map(|(_, done)| done.to_owned())
            .collect()
    };
    let on_control_plane: Vec<Right> = control_plane().into_iter().chain(lease()).collect();
    let mut unused = BTreeSet::new();
    for (name, rights, done) in
        [("control plane", on_control_plane, done(true)), ("data plane", data_plane(), done(false))]
    {
        assert!(!done.is_empty(), "nothing was done on the {name}");
        // What is applied is read and removed by the same code for all kinds, and not each of them in some test.
        let is_applied = |needed: &String| {
            let of = needed.strip_prefix("get ").or_else(|| needed.strip_prefix("delete "));
            name == "data plane" && of.is_some_and(|of| done.contains(&format!("patch {of}")))
        };
        let unneeded =
            uses(&rights).into_iter().filter(|needed| !done.contains(needed) && !is_applied(needed));
        unused.extend(
            unneeded
                .filter(|needed| UNSEEN.iter().all(|(known, _)| known != needed))
                .map(|u| format!("{name}: {u}")),
        );
    }
    assert!(unused.is_empty(), "no test needed these: {unused:#?}");
}
