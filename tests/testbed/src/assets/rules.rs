//! A program of ours that checks alert rules and expressions with the code of Prometheus, as promtool does: all of promtool
//! takes minutes to build, this takes one.

use std::path::PathBuf;

use anyhow::Result;

use super::build::{Pin, Program};

const PIN: Pin = Pin {
    go_mod: include_str!("../../assets/rules/go.mod"),
    go_sum: include_str!("../../assets/rules/go.sum"),
};
const MAIN: &str = include_str!("../../assets/rules/main.go");

/// The program, after building it where necessary. Blocks; tells its progress on stderr.
pub fn rules_checker() -> Result<PathBuf> {
    const MODULE: &str = "github.com/prometheus/prometheus";
    let program =
        Program { main: Some(MAIN), package: ".".to_owned(), ..Program::stripped("rules", &PIN, MODULE, "") };
    program.provide("a minute")
}
