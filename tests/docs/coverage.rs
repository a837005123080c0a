//! What has to be written down is, and what is named exists.

use std::{collections::BTreeSet, fs, path::PathBuf};

use kantor_api::conditions::reasons;

use super::pages::{page, root};

#[test]
fn every_reason_stands_in_troubleshooting() {
    let text = page("docs/troubleshooting.md").text;
    let missing: Vec<&str> = reasons::ALL
        .iter()
        .map(|reason| reason.value)
        .filter(|reason| !text.contains(&format!("`{reason}`")))
        .collect();
    assert!(missing.is_empty(), "docs/troubleshooting.md says nothing about {missing:?}");
}

#[test]
fn the_front_page_names_the_versions_that_are_tested() {
    let text = page("README.md").text;
    for (project, version) in kantor_testbed::assets::versions().unwrap() {
        let row = format!("| {project} | {version} ");
        assert!(text.lines().any(|line| line.starts_with(&row)), "README.md has no row {row:?}");
    }
}

/// Names of all tests of the project.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> =
        ["src", "api", "core", "tests"].iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                names.extend(tests_of(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    names
}

/// Functions behind an attribute that makes them tests.
fn tests_of(source: &str) -> Vec<String> {
    let mut names = vec![];
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if ["#[test]", "#[tokio::test", "#[rstest", "proptest!"].iter().any(|word| line.starts_with(word)) {
            is_test = true;
        }
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let Some(name) = function.filter(|_| is_test).and_then(|rest| rest.split('(').next()) {
            names.push(name.to_owned());
            is_test = false;
        }
    }
    names
}

#[test]
fn every_test_that_the_threat_table_names_exists() {
    let (text, tests) = (page("docs/security.md").text, tests());
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| *line != "## Threats")
        .filter(|line| line.starts_with("| ") && !line.starts_with("| threat"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 13, "the table has {} rows", rows.len());
    for row in rows {
        let [threat, _, shown] = row.as_slice() else { panic!("three columns: {row:?}") };
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test shows {threat}");
        for name in named {
            assert!(tests.contains(name), "{threat}: there is no test {name}");
        }
    }
}

#[test]
fn tests_are_told_from_other_functions() {
    let source = "#[test]\nfn a() {}\nfn b() {}\n#[tokio::test(flavor = \"x\")]\nasync fn c() {}\n";
    assert_eq!(tests_of(source), ["a", "c"]);
}
