use serde_json::json;

use super::*;

#[test]
fn a_difference_names_object_path_and_both_values() {
    let config = key("", "ConfigMap", "a", "c");
    let before = BTreeMap::from([
        (
            config.clone(),
            json!({"data": {"a.txt": "1", "same": "x"}, "list": [{"image": "v1"}], "gone": true}),
        ),
        (key("apps", "Deployment", "a", "d"), json!({})),
    ]);
    let after = BTreeMap::from([
        (config, json!({"data": {"a.txt": "2", "same": "x"}, "list": [{"image": "v2"}, {}]})),
        (key("", "Namespace", "", "n"), json!({})),
    ]);
    let diff = Diff::between(&before, &after);
    assert!(!diff.is_empty());
    let expected = r#"  + Namespace n
  - Deployment.apps a/d
  ~ ConfigMap a/c
      data["a.txt"]: "1" → "2"
      gone: removed
      list[0].image: "v1" → "v2"
      list[1]: added {}
"#;
    assert_eq!(diff.to_string(), expected);
}

#[test]
fn equal_snapshots_have_no_difference() {
    let objects = BTreeMap::from([(key("", "ConfigMap", "a", "c"), json!({"data": {"a": "1"}}))]);
    let diff = Diff::between(&objects, &objects.clone());
    assert!(diff.is_empty(), "{diff}");
}

#[test]
fn values_of_secrets_are_never_printed() {
    let secret = key("", "Secret", "a", "s");
    let before = BTreeMap::from([(
        secret.clone(),
        json!({"data": {"password": "before", "gone": "before"}, "type": "a"}),
    )]);
    let after =
        BTreeMap::from([(secret, json!({"data": {"password": "after", "new": "after"}, "type": "b"}))]);
    let expected = r#"  ~ Secret a/s
      data.gone: removed
      data.new: added
      data.password: changed
      type: "a" → "b"
"#;
    assert_eq!(Diff::between(&before, &after).to_string(), expected);
}

#[test]
fn long_values_are_cut() {
    let config = key("", "ConfigMap", "a", "c");
    let before = BTreeMap::from([(config.clone(), json!({"data": "x"}))]);
    let after = BTreeMap::from([(config, json!({"data": "ü".repeat(10_000)}))]);
    let text = Diff::between(&before, &after).to_string();
    assert!(text.chars().count() < 300 && text.contains('…'), "{text}");
}

fn key(group: &str, kind: &str, namespace: &str, name: &str) -> Key {
    let [group, kind, namespace, name] = [group, kind, namespace, name].map(ToOwned::to_owned);
    Key { group, kind, namespace, name }
}
