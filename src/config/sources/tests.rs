use std::fs;

use clap::{Args, Parser, Subcommand};

use super::*;

type Outcome = anyhow::Result<Result<Parsed<Cli>, clap::Error>>;

#[derive(Parser, Debug)]
#[command(name = "program")]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Subcommand, Debug)]
enum Sub {
    Run(RunArgs),
    Other,
}

// Names that no environment has.
#[derive(Args, Debug)]
struct RunArgs {
    #[arg(long)]
    config: Option<PathBuf>,
    #[arg(long, default_value_t = 7)]
    test_only_number: u32,
    #[arg(long)]
    test_only_switch: bool,
    #[arg(long, value_delimiter = ',')]
    test_only_list: Vec<String>,
}

#[expect(clippy::unwrap_in_result, reason = "the test fails where its file cannot be written")]
fn run(file: Option<&str>, arguments: &[&str]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    let mut line = vec!["program".to_owned(), "run".to_owned()];
    if let Some(text) = file {
        fs::write(&path, text).unwrap();
        line.push(format!("--config={}", path.display()));
    }
    line.extend(arguments.iter().map(ToString::to_string));
    parse::<Cli>(line.into_iter().map(OsString::from))
}

fn args(parsed: Outcome) -> (RunArgs, Vec<Setting>) {
    let parsed = parsed.unwrap().unwrap();
    let Sub::Run(args) = parsed.cli.command else { panic!("another command") };
    (args, parsed.settings)
}

#[test]
fn a_flag_goes_before_the_file_and_the_file_before_the_default() {
    let (none, settings) = args(run(None, &[]));
    assert_eq!(none.test_only_number, 7);
    assert!(settings.iter().all(|setting| setting.source == Source::Default), "{settings:?}");
    let file = "testOnlyNumber: 8\ntestOnlySwitch: true\ntestOnlyList: [a, b]\n";
    let (from_file, settings) = args(run(Some(file), &[]));
    assert_eq!((from_file.test_only_number, from_file.test_only_switch), (8, true));
    assert_eq!(from_file.test_only_list, ["a", "b"]);
    let number = Setting { flag: "test-only-number".into(), value: "8".into(), source: Source::File };
    assert_eq!(settings[0], number);
    let (both, settings) = args(run(Some(file), &["--test-only-number", "9", "--test-only-list", "c"]));
    assert_eq!((both.test_only_number, both.test_only_switch), (9, true));
    assert_eq!(both.test_only_list, ["c"]);
    assert_eq!(settings[0].source, Source::Flag);
}

#[test]
fn an_empty_file_changes_nothing() {
    for empty in ["", "# nothing\n", "{}\n"] {
        assert_eq!(args(run(Some(empty), &[])).0.test_only_number, 7, "{empty:?}");
    }
}

#[test]
fn mistakes_in_the_file_are_named_with_the_file() {
    for (file, expected) in [
        ("testOnlyNumbers: 8", "there is no key testOnlyNumbers"),
        ("test-only-number: 8", "it is written testOnlyNumber"),
        ("testOnlyNumber: many", "invalid value 'many'"),
        ("testOnlyNumber: {a: 1}", "expected a text"),
        ("testOnlyList: [[a]]", "expected a text"),
        ("- a", "has to hold keys and values"),
        ("a: b: c", "is not YAML"),
        ("config: other.yaml", "there is no key config"),
    ] {
        let error = run(Some(file), &[]).map(|_| ()).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(expected) && error.contains("config.yaml"), "{file}: {error}");
    }
    let line = ["program", "run", "--config", "/does/not/exist"];
    let error = parse::<Cli>(line.map(OsString::from)).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("cannot read the config file /does/not/exist"), "{error:#}");
}

#[test]
fn mistakes_on_the_command_line_are_not_the_files() {
    let error = run(Some("testOnlyNumber: 8"), &["--nonsense"]).unwrap().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("--nonsense"), "{error}");
}

#[test]
fn keys_and_variables_are_made_of_the_flags() {
    assert_eq!(key_of("plane-qps"), "planeQps");
    assert_eq!(key_of("log"), "log");
    assert_eq!(variable_of("plane-qps"), "KANTOR_PLANE_QPS");
}

#[test]
fn only_commands_with_a_config_file_have_variables() {
    let command = with_environment(Cli::command());
    let run = command.find_subcommand("run").unwrap();
    assert!(settings_of(run).all(|arg| arg.get_env().is_some()));
    assert!(!has_config(command.find_subcommand("other").unwrap()));
}
