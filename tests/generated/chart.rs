//! The chart's schema and the table of its values.

use std::{any::TypeId, collections::BTreeMap, fmt::Write as _, fs, path::Path, path::PathBuf};

use clap::{Arg, Args as _, Command};
use kantor::commands::controller::ControllerArgs;
use serde_json::{Map, Value, json};

/// Flags that the chart sets itself, or that make no sense in a pod that it makes.
const NOT_IN_CONFIG: &[&str] =
    &["config", "kubeconfig", "context", "listen", "lease-namespace", "help", "version"];

/// `values.schema.json` and `README.md`.
pub fn files() -> BTreeMap<PathBuf, String> {
    let mut schema: Value = serde_saphyr::from_str(include_str!("chart/values.schema.yaml")).unwrap();
    schema["properties"]["config"] = config();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let values = fs::read_to_string(root.join("charts/kantor/values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    let mut readme = include_str!("chart/README.md").to_owned();
    readme += "| value | default | what it is |\n|---|---|---|\n";
    let mut unused: Vec<String> = vec![];
    rows(&schema["properties"], &values, "", &mut readme, &mut unused);
    assert!(unused.is_empty(), "values.yaml and its schema do not agree on {unused:?}");
    BTreeMap::from([
        ("charts/kantor/values.schema.json".into(), serde_json::to_string_pretty(&schema).unwrap() + "\n"),
        ("charts/kantor/README.md".into(), readme),
    ])
}

/// The operator's settings, as its command knows them.
fn config() -> Value {
    let command = ControllerArgs::augment_args(Command::new("controller"));
    let mut properties = Map::new();
    for arg in command.get_arguments() {
        let Some(flag) = arg.get_long().filter(|flag| !NOT_IN_CONFIG.contains(flag)) else { continue };
        properties.insert(camel_case(flag), setting(arg));
    }
    json!({
        "description": "Settings of the operator: its flags, written like `planeQps: 100`.",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

fn setting(arg: &Arg) -> Value {
    let parser = arg.get_value_parser().type_id();
    let is_integer = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i32>(),
        TypeId::of::<i64>(),
    ]
    .iter()
    .any(|integer| parser == *integer);
    let possible: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let one = if parser == TypeId::of::<bool>() {
        json!({"type": "boolean"})
    } else if is_integer {
        json!({"type": "integer"})
    } else if possible.is_empty() {
        json!({"type": "string"})
    } else {
        json!({"type": "string", "enum": possible})
    };
    let many = matches!(arg.get_action(), clap::ArgAction::Append) || arg.get_value_delimiter().is_some();
    let mut setting = if many { json!({"type": "array", "items": one}) } else { one };
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let default: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !default.is_empty() {
        let _ = write!(help, " Default: {}", default.join(","));
    }
    setting["description"] = json!(help);
    setting
}

/// `plane-qps` as `planeQps`.
fn camel_case(flag: &str) -> String {
    let mut words = flag.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let (initial, rest) = word.split_at(1);
        text + &initial.to_uppercase() + rest
    })
}

/// One row per value. `unused` gets what only one of schema and values has.
fn rows(properties: &Value, values: &Value, prefix: &str, text: &mut String, unused: &mut Vec<String>) {
    let empty = Map::new();
    let (properties, values) =
        (properties.as_object().unwrap_or(&empty), values.as_object().unwrap_or(&empty));
    let unknown = values.keys().filter(|key| !properties.contains_key(*key));
    unused.extend(unknown.map(|key| format!("{prefix}{key}")));
    // By name: a JSON object has no other order here.
    for (key, value) in values {
        let Some(property) = properties.get(key) else { continue };
        match property["description"].as_str() {
            Some(description) => {
                let default = serde_json::to_string(value).unwrap();
                let _ = writeln!(text, "| `{prefix}{key}` | `{default}` | {description} |");
            }
            None => rows(&property["properties"], value, &format!("{prefix}{key}."), text, unused),
        }
    }
    let missing = properties.keys().filter(|key| !values.contains_key(*key) && *key != "global");
    unused.extend(missing.map(|key| format!("{prefix}{key}")));
    if prefix.is_empty() {
        let config = config();
        text.push_str("\n### config\n\n| setting | what it is |\n|---|---|\n");
        for (key, setting) in config["properties"].as_object().unwrap() {
            let _ = writeln!(text, "| `{key}` | {} |", setting["description"].as_str().unwrap_or_default());
        }
    }
}
