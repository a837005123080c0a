//! A program of ours that checks alert rules and expressions with the code of Prometheus, as promtool does: all of promtool
//! takes minutes to build, this takes one.

use std::{
    env::consts::{ARCH, OS},
    path::PathBuf,
};

use anyhow::Result;

use super::{
    build::{Pin, Program},
    cache,
    progress::say,
    traffic::provide,
};

const NAME: &str = "rules";
const PIN: Pin = Pin {
    go_mod: include_str!("../../assets/rules/go.mod"),
    go_sum: include_str!("../../assets/rules/go.sum"),
};
const MAIN: &str = include_str!("../../assets/rules/main.go");

/// The program, after building it where necessary. Blocks; tells its progress on stderr.
pub fn rules_checker() -> Result<PathBuf> {
    let parts = cache::fingerprint([PIN.go_mod, PIN.go_sum, MAIN, OS, ARCH]);
    provide(NAME, &cache::root()?.join(NAME).join(parts), |folder| {
        say(&format!("building the checker of alert rules into {}", folder.display()));
        say("the first build takes about a minute, once");
        let program = Program {
            name: NAME,
            pin: &PIN,
            main: Some(MAIN),
            package: ".".to_owned(),
            linker_flags: "-s -w".to_owned(),
        };
        program.build(folder, "")
    })
}
