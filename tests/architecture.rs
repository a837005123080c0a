//! The rules of the code base that no compiler checks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Modules of the crate and what each may import of it. Data flows down this list; imports only go up it.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("config", &[]),
    ("client", &[]),
    ("telemetry", &["client"]),
    ("cache", &["client", "telemetry"]),
    ("planes", &["client", "telemetry"]),
    ("apply", &["client", "telemetry", "cache", "planes"]),
    ("leader", &["client", "apply"]),
    ("runtime", &["client", "telemetry", "cache", "planes", "apply"]),
    ("controllers", &["client", "telemetry", "cache", "planes", "apply", "runtime"]),
    ("server", &["telemetry", "cache", "planes", "apply", "runtime", "controllers"]),
    (
        "commands",
        &[
            "config",
            "client",
            "telemetry",
            "cache",
            "planes",
            "apply",
            "leader",
            "runtime",
            "controllers",
            "server",
        ],
    ),
];

/// Crates that decisions must not have: they connect, wait, roll dice or ask the machine.
const IMPURE_CRATES: &[&str] = &[
    "axum",
    "fastrand",
    "getrandom",
    "hyper",
    "hyper-util",
    "kube",
    "kube-client",
    "kube-runtime",
    "rand",
    "reqwest",
    "rustix",
    "tokio",
    "tokio-util",
    "tower",
    "tracing",
];

/// What decisions must not see: they are functions of their arguments. Paths, with all that is below them.
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io::stderr",
    "std::io::stdin",
    "std::io::stdout",
    "std::process",
    "std::thread",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// The same where it is no path.
const IMPURE_WORDS: &[&str] = &["async fn", "async move", "async {", ".await", "::now()"];

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

/// The modules that a file is in, from the outermost; those of the crate `core` are below `core`.
fn place(path: &Path) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let parts = path.strip_prefix(root).unwrap().with_extension("");
    let parts = parts.components().map(|part| part.as_os_str().to_str().unwrap().to_owned());
    parts.filter(|part| part != "src").collect()
}

/// The top-level module that a source file belongs to.
fn module(path: &Path) -> String {
    place(path).swap_remove(0)
}

/// The paths that a tree of `use` names: `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split_whitespace().collect()];
    };
    let (prefix, group) = (tree[..open].trim(), tree[open + 1..].trim_end().trim_end_matches('}'));
    // The brace that closes this one is the last: each of those within is closed before.
    let (mut parts, mut depth, mut start) = (vec![], 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[start..]);
    let balanced = |part: &str| {
        let missing = part.matches('{').count().saturating_sub(part.matches('}').count());
        format!("{part}{}", "}".repeat(missing))
    };
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| leaves(&balanced(part))).map(|leaf| format!("{prefix}{leaf}")).collect()
}

/// A word, or a part of a path.
fn word(text: &str) -> &str {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default()
}

/// All paths that a text names: those of its imports, with their groups taken apart, and those in its code.
fn paths(text: &str) -> Vec<String> {
    let mut found = vec![];
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        let begins = rest[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || c == ')');
        rest = &rest[at + "use ".len()..];
        let is_path = rest.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == ':' || c == '{');
        if let Some(end) = rest.find(';').filter(|_| begins && is_path) {
            let tree = &rest[..end];
            // Prose has the word, too, but neither paths nor groups.
            if !tree.contains(['.', '"', '(', '=']) {
                found.extend(leaves(tree));
            }
        }
    }
    let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let code = text.split(|c| !is_of_path(c)).filter(|part| part.contains("::"));
    found.extend(code.map(|path| path.trim_end_matches(':').to_owned()));
    found
}

/// Whether a path is another one, or below it.
fn is_below(path: &str, other: &str) -> bool {
    path.trim_start_matches("::")
        .strip_prefix(other)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Top-level modules of the crate that a text in this place names, by `crate::` or by as many `super::` as it takes.
fn imports(place: &[String], text: &str) -> Vec<String> {
    let mut found = vec![];
    for path in paths(text) {
        let path = path.trim_start_matches("self::");
        let (mut rest, mut ups) = (path, 0);
        while let Some(above) = rest.strip_prefix("super::") {
            (rest, ups) = (above, ups + 1);
        }
        if let Some(below) = path.strip_prefix("crate::") {
            found.push(word(below).to_owned());
        } else if ups > 0 && ups >= place.len() {
            found.push(word(rest).to_owned());
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
        let imports = imports(&place(&path), &text);
        for import in imports.into_iter().filter(|i| known.contains(&i.as_str())) {
            if import != module && !allowed.contains(&import.as_str()) {
                wrong.push(format!("{}: {module} imports {import}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What must not import itself in a circle: the top-level modules, and of the controllers each kind and what they share.
fn unit(path: &[String]) -> String {
    match path {
        [top, below, ..] if top == "controllers" => format!("controllers::{below}"),
        [top, ..] => top.clone(),
        [] => String::new(),
    }
}

/// Units that a text in this place names.
fn units(place: &[String], text: &str, known: &[String]) -> Vec<String> {
    let mut found = vec![];
    for path in paths(text) {
        let parts: Vec<String> = path.split("::").map(ToOwned::to_owned).collect();
        let ups = parts.iter().take_while(|part| *part == "super").count();
        let absolute = match parts[0].as_str() {
            "crate" => parts[1..].to_vec(),
            "super" if ups <= place.len() => [&place[..place.len() - ups], &parts[ups..]].concat(),
            _ => continue,
        };
        let unit = unit(&absolute);
        if known.contains(&unit) {
            found.push(unit);
        }
    }
    found
}

#[test]
fn no_module_imports_itself_in_a_circle() {
    let files: Vec<(Vec<String>, String)> = sources("src")
        .into_iter()
        .filter(|(path, _)| !is_test(path))
        .map(|(path, text)| (place(&path), shipped(&text).to_owned()))
        // The parent of the controllers starts them all, and has what they share.
        .filter(|(place, _)| !["lib", "main"].contains(&place[0].as_str()) && place[..] != ["controllers"])
        .collect();
    let known: Vec<String> = files.iter().map(|(place, _)| unit(place)).collect();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (place, text) in &files {
        let own = unit(place);
        let others = units(place, text, &known).into_iter().filter(|other| *other != own);
        edges.entry(own.clone()).or_default().extend(others);
    }
    assert!(
        edges["controllers::endpoint"].contains("controllers::shared"),
        "this test sees no imports: {edges:?}"
    );
    // What imports nothing that is left is taken away, until nothing is.
    while let Some(free) = edges.iter().find(|(_, of)| of.is_empty()).map(|(unit, _)| unit.clone()) {
        edges.remove(&free);
        for of in edges.values_mut() {
            of.remove(&free);
        }
    }
    assert!(edges.is_empty(), "these import each other in a circle: {edges:#?}");
}

#[test]
fn the_api_knows_nothing_of_the_operator() {
    for (path, text) in sources("api/src") {
        assert!(!text.contains("kantor::") && !text.contains("kantor_core"), "{}", path.display());
    }
}

/// A text without the tests at its end.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or_default()
}

/// Whether a file has nothing but tests.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// What of a text is not for decisions.
fn impurities(text: &str) -> Vec<String> {
    let named = paths(text).into_iter().filter(|path| IMPURE.iter().any(|impure| is_below(path, impure)));
    let said = IMPURE_WORDS.iter().filter(|words| text.contains(**words)).map(|words| (*words).to_owned());
    named.chain(said).collect()
}

#[test]
fn decisions_are_pure() {
    for (path, text) in sources("core/src").into_iter().filter(|(path, _)| !is_test(path)) {
        let found = impurities(shipped(&text));
        assert!(found.is_empty(), "{} uses {found:?}", path.display());
    }
}

/// Names of the crates in a section of a manifest.
fn dependencies<'a>(manifest: &'a str, section: &str) -> Vec<&'a str> {
    let after = manifest.split(&format!("\n[{section}]\n")).nth(1).unwrap_or_default();
    let lines = after.lines().take_while(|line| !line.starts_with('['));
    let names = lines.map(|line| line.split(['.', ' ', '=']).next().unwrap_or_default());
    names.filter(|name| !name.is_empty() && !name.starts_with('#')).collect()
}

#[test]
fn decisions_have_no_crate_that_connects_or_waits() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("core/Cargo.toml")).unwrap();
    let found = dependencies(&manifest, "dependencies");
    assert!(found.contains(&"kube-core"), "this test reads the wrong section: {found:?}");
    let impure: Vec<&str> = found.into_iter().filter(|name| IMPURE_CRATES.contains(name)).collect();
    assert!(impure.is_empty(), "core/Cargo.toml has {impure:?}");
}

#[test]
fn an_impure_decision_is_found_however_it_is_written() {
    for text in [
        "use std::time::SystemTime;",
        "use std::time::{Duration, SystemTime};",
        "use std::{collections::BTreeMap, time::{Duration, Instant}};",
        "use std::{\n    env,\n    fmt,\n};",
        "use std::{fs};",
        "use std::{fmt, io::stderr as err, env as surroundings};",
        "pub(crate) use std::{net::{IpAddr, TcpStream}};",
        "use ::std::thread::JoinHandle;",
        "fn f() { let text = std::fs::read_to_string(path); }",
        "fn f() { let now = Timestamp::now(); }",
        "fn f() { std::time::Instant::elapsed(&since) }",
        "async fn f() {}",
    ] {
        assert_ne!(impurities(text), [""; 0], "{text}");
    }
    for text in [
        "use std::{collections::BTreeMap, net::IpAddr, time::Duration};",
        "use kube_core::{ResourceExt, DynamicObject};",
        "/// Those who use it; std::envs of all kinds.\nfn f() {}",
        "use crate::environment;",
    ] {
        assert_eq!(impurities(text), [""; 0], "{text}");
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

/// Who may say that something is not on a plane: it has read all that the plane serves, and its definitions.
const MAY_PROVE_ABSENCE: &[&str] = &["planes/kinds.rs"];

/// Who asks for what is there and concludes nothing if there is nothing: to show it, to look at it, or to stop looking.
const MAY_IGNORE_ABSENCE: &[&str] = &[
    "apply/engine.rs",
    "controllers/endpoint/observe.rs",
    "controllers/shared/plane_objects.rs",
    "controllers/release.rs",
    "controllers/release/clean_up.rs",
    "controllers/release/place.rs",
    "core/endpoint/routes.rs",
];

/// All source files of the operator and of its decisions.
fn everything() -> Vec<(PathBuf, String)> {
    [sources("src"), sources("core/src")].concat()
}

/// Source files, without their tests, as paths of modules.
fn production() -> Vec<(String, String)> {
    let all = everything().into_iter().map(|(path, text)| (format!("{}.rs", place(&path).join("/")), text));
    let without_tests = all.filter(|(path, _)| !path.contains("/tests") && path != "planes/fake.rs");
    without_tests
        .map(|(path, text)| {
            let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
            (path, text[..end].to_owned())
        })
        .collect()
}

/// What is wrong with how a file uses what is known of a plane.
fn confusions(path: &str, text: &str) -> Vec<&'static str> {
    let is = |list: &[&str]| list.contains(&path);
    let mut wrong = vec![];
    if !is(MAY_PROVE_ABSENCE) && text.contains("Proof::") {
        wrong.push("it proves absence");
    }
    if !is(MAY_IGNORE_ABSENCE) && text.contains(".if_present()") {
        wrong.push("it ignores absence");
    }
    // Of the three cases none is passed over, and no two of them are one.
    for pattern in ["let Known::", "matches!("] {
        let passed_over = text.match_indices(pattern).any(|(at, _)| {
            let statement = &text[at..text[at..].find(['{', ';']).map_or(text.len(), |end| at + end)];
            statement.contains("Known::")
        });
        if passed_over {
            wrong.push("it asks for one case of Known only");
        }
    }
    if text.contains("Known::Absent(_) | Known::Unknown")
        || text.contains("Known::Unknown(_) | Known::Absent")
    {
        wrong.push("it takes unknown for absent");
    }
    let [present, absent, unknown] =
        ["Known::Present", "Known::Absent", "Known::Unknown"].map(|case| text.matches(case).count());
    if absent < present || unknown < present {
        wrong.push("it does not name all cases of Known");
    }
    wrong
}

#[test]
fn nobody_takes_what_is_not_known_for_absent() {
    for (path, text) in production().iter().filter(|(path, _)| path != "core/known.rs") {
        let wrong = confusions(path, text);
        assert!(wrong.is_empty(), "{path}: {wrong:?}");
    }
    let three = "match it { Known::Present(_) => 1, Known::Absent(_) => 2, Known::Unknown(_) => 3 }";
    assert_eq!(confusions("some.rs", three), [""; 0]);
    for text in [
        "let Known::Present(it) = it else { return };",
        "if matches!(it, Known::Absent(_)) {}",
        "match it { Known::Present(it) => it, _ => return }",
        "match it { Known::Present(it) => it, Known::Absent(_) | Known::Unknown(_) => return }",
        "Known::Absent(Proof::of_a_complete_look())",
        "if it.if_present().is_none() { delete() }",
    ] {
        assert!(!confusions("some.rs", text).is_empty(), "{text}");
    }
}

/// Objects of gateways are made in one place, however they are written there.
#[test]
fn objects_of_gateways_are_rendered_in_one_module_of_core_only() {
    let renders = |text: &str| {
        ["\"gateway.networking.k8s.io/", "\"gateway.envoyproxy.io/", "gateway_api::"]
            .iter()
            .any(|version| text.contains(version))
    };
    let users: Vec<Vec<String>> = everything()
        .into_iter()
        .filter(|(path, text)| !is_test(path) && renders(shipped(text)))
        .map(|(path, _)| place(&path))
        .collect();
    assert!(!users.is_empty(), "nothing is rendered: this test looks for the wrong words");
    assert!(
        users.iter().all(|place| place.starts_with(&["core".to_owned(), "endpoint".to_owned()])),
        "{users:?}"
    );
}

/// Hosts that users write are judged in one place: what one check knows of odd spellings and of metadata services, all know.
#[test]
fn hosts_are_judged_in_one_module_only() {
    let judging = [
        "parse::<Ip",
        ": Ipv4Addr",
        ": Ipv6Addr",
        "is_private()",
        "is_link_local()",
        "is_unicast_link_local()",
    ];
    for (path, text) in
        everything().into_iter().filter(|(path, _)| !path.to_string_lossy().contains("core/src/net"))
    {
        for judges in judging {
            assert!(!text.contains(judges), "{} has {judges}: ask core::net", path.display());
        }
    }
}

#[test]
fn the_import_scanner_sees_groups_paths_and_ways_up() {
    let place = ["controllers".to_owned(), "endpoint".to_owned()];
    let of = |text: &str| imports(&place, text);
    let text = "use crate::{apply::{Writer, X}, core, world::World};\nfn f() { crate::server::serve() }";
    assert_eq!(of(text), ["apply", "apply", "core", "world", "server"]);
    assert_eq!(of("use super::{super::{server::X, world}, Context};"), ["server", "world"]);
    assert_eq!(of("fn f() { super::super::commands::run() }"), ["commands"]);
    assert_eq!(of("use super::Context;"), [""; 0]);
}
