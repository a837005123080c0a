//! The operator understands what the chart tells it.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{project, render, the};

fn kantor(arguments: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kantor")).args(arguments).env_clear().output().unwrap()
}

/// `planeQps` as `plane-qps`.
fn flag(setting: &str) -> String {
    setting.chars().fold(String::new(), |text, letter| {
        if letter.is_ascii_uppercase() {
            text + "-" + &letter.to_ascii_lowercase().to_string()
        } else {
            text + &letter.to_string()
        }
    })
}

/// A setting as a flag; one that is off is left out.
fn as_flag((name, value): (&String, &Value)) -> Option<String> {
    match value {
        Value::Bool(on) => on.then(|| format!("--{}", flag(name))),
        Value::String(text) => Some(format!("--{}={text}", flag(name))),
        other => Some(format!("--{}={other}", flag(name))),
    }
}

/// Each setting of the schema, with its default.
fn settings() -> Vec<String> {
    let schema = std::fs::read_to_string(project("charts/kantor/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let known = schema["properties"]["config"]["properties"].as_object().unwrap();
    let set = |(name, property): (&String, &Value)| {
        let (_, default) = property["description"].as_str()?.rsplit_once(" Default: ")?;
        let value = match property["type"].as_str()? {
            "string" => Value::from(default),
            "array" => Value::from(default.split(',').collect::<Vec<_>>()),
            _ => serde_json::from_str(default).unwrap(),
        };
        Some(format!("--set-json=config.{name}={value}"))
    };
    known.iter().filter_map(set).collect()
}

#[test]
fn the_operator_takes_the_arguments_and_settings_of_the_chart() {
    let help = String::from_utf8(kantor(&["controller".into(), "--help".into()]).stdout).unwrap();
    let has_file = help.contains("--config ");
    let folder = tempfile::tempdir().unwrap();
    let mut all = settings();
    assert!(all.len() > 10, "{all:?}");
    all.push("--set=extraArgs={--context=other}".to_owned());
    for values in [vec![], all] {
        let objects = render(&values);
        let container = &the(&objects, "Deployment", "kantor")["spec"]["template"]["spec"]["containers"][0];
        let config = the(&objects, "ConfigMap", "kantor")["data"]["config.yaml"].as_str().unwrap();
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        let mut arguments = vec![];
        for argument in container["args"].as_array().unwrap() {
            match argument.as_str().unwrap() {
                "--config=/etc/kantor/config.yaml" if has_file => {
                    arguments.push(format!("--config={}", file.display()));
                }
                "--config=/etc/kantor/config.yaml" => {
                    let settings: Value = serde_saphyr::from_str(config).unwrap();
                    arguments.extend(settings.as_object().unwrap().iter().filter_map(as_flag));
                }
                other => arguments.push(other.to_owned()),
            }
        }
        // It gets as far as to look for its control plane: everything before that was understood.
        arguments.push("--kubeconfig=/does/not/exist".to_owned());
        let output = kantor(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("cannot read the kubeconfig /does/not/exist"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_setting_that_the_operator_does_not_know_would_be_seen() {
    let output =
        kantor(&["controller".into(), "--no-such-flag".into(), "--kubeconfig=/does/not/exist".into()]);
    assert_eq!(output.status.code(), Some(2));
}
