//! What is accepted, what is refused, and that neither tells a secret.

mod accepted;
mod fixtures;
mod hostile;
mod inline;
mod properties;

use std::{fs, path::Path};

/// What would let the parser act on a document instead of reading it.
const ACTS: [&str; 9] = [
    "std::fs",
    "std::process",
    "std::env",
    "std::net::Tcp",
    "std::net::ToSocketAddrs",
    "tokio",
    "kube::",
    "from_pem_file",
    "pem_file_iter",
];

#[test]
fn the_parser_has_no_means_to_run_commands_read_files_or_connect() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("core/src");
    let (planes, addresses) = (source.join("planes"), core.join("net"));
    let mut files = vec![planes.join("kubeconfig.rs"), core.join("net.rs"), addresses.join("outside.rs")];
    for entry in fs::read_dir(planes.join("kubeconfig")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path.file_name().is_some_and(|name| name != "tests.rs") {
            files.push(path);
        }
    }
    assert!(files.len() > 6, "the parts of the parser were not found: {files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for act in ACTS {
            assert!(!text.contains(act), "{} has {act}", file.display());
        }
    }
}
