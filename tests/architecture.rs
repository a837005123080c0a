//! The rules of the code base that no compiler checks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Modules of the crate and what each may import of it. Data flows down this list; imports only go up it.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("permit", &[]),
    ("limits", &[]),
    ("reading", &[]),
    ("metrics", &["core"]),
    ("planes", &["core", "metrics", "permit", "limits", "reading"]),
    ("apply", &["core", "metrics", "planes", "reading"]),
    ("election", &["core", "permit", "apply"]),
    ("world", &["core", "metrics", "reading"]),
    ("controllers", &["core", "metrics", "apply", "planes", "world"]),
    ("server", &["core", "metrics", "apply", "planes", "world", "controllers"]),
    (
        "commands",
        &[
            "core",
            "permit",
            "limits",
            "metrics",
            "apply",
            "planes",
            "world",
            "election",
            "controllers",
            "server",
        ],
    ),
];

/// What decisions must not see: they are functions of their arguments.
const IMPURE: &[&str] = &[
    "tokio::",
    "std::env",
    "std::time::SystemTime",
    "Timestamp::now",
    "kube::Client",
    "kube::Api",
    "async fn",
];

/// Without one of these nothing can be written to a cluster; only `apply` may name them.
const WRITES: &[&str] = &["PatchParams", "PostParams", "DeleteParams"];

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut files = vec![];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    assert!(!files.is_empty());
    files
}

/// The top-level module that a source file belongs to.
fn module(path: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let first = path.strip_prefix(root).unwrap().components().next().unwrap();
    first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// Top-level modules that `text` names with `crate::`, also inside braces.
fn imports(text: &str) -> Vec<String> {
    let word = |s: &str| s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = vec![];
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.push(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut start = true;
        for (i, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => start = true,
                c if start && depth == 0 && !c.is_whitespace() => {
                    found.push(word(&group[i..]));
                    start = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn imports_go_one_way() {
    let known: Vec<&str> = MAY_IMPORT.iter().map(|(module, _)| *module).collect();
    let mut wrong = vec![];
    for (path, text) in sources("src") {
        let module = module(&path);
        if module == "main" || module == "lib" {
            continue;
        }
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(m, _)| *m == module) else {
            panic!("{} belongs to a module without a place in MAY_IMPORT", path.display());
        };
        for import in imports(&text).into_iter().filter(|i| known.contains(&i.as_str())) {
            if import != module && !allowed.contains(&import.as_str()) {
                wrong.push(format!("{}: {module} imports {import}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_api_knows_nothing_of_the_operator() {
    for (path, text) in sources("api/src") {
        assert!(!text.contains("kantor::"), "{}", path.display());
    }
}

#[test]
fn decisions_are_pure() {
    for (path, text) in sources("src").into_iter().filter(|(path, _)| module(path) == "core") {
        for impure in IMPURE {
            assert!(!text.contains(impure), "{} uses {impure}", path.display());
        }
    }
}

#[test]
fn only_the_apply_engine_writes_to_clusters() {
    for (path, text) in sources("src").into_iter().filter(|(path, _)| module(path) != "apply") {
        for write in WRITES {
            assert!(!text.contains(write), "{} names {write}", path.display());
        }
    }
}

#[test]
fn gateway_types_are_imported_in_one_module_of_core_only() {
    let users: Vec<PathBuf> = sources("src")
        .into_iter()
        .filter(|(_, text)| text.contains("gateway_api::"))
        .map(|(path, _)| path)
        .collect();
    assert!(users.len() <= 1, "{users:?}");
    assert!(users.iter().all(|path| module(path) == "core"), "{users:?}");
}

#[test]
fn the_import_scanner_sees_groups_and_paths() {
    let text = "use crate::{apply::{Writer, X}, core, world::World};\nfn f() { crate::server::serve() }";
    assert_eq!(imports(text), ["apply", "core", "world", "server"]);
}
