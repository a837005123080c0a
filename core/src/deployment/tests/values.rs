use rstest::rstest;

use super::{
    super::values::{Held, clean_path, file_name, held, sets_of, variable, yaml_text},
    *,
};

#[rstest]
#[case("email-host", "EMAIL_HOST")]
#[case("123", "_123")]
#[case("_x", "_X")]
#[case("a.b/c", "A_B_C")]
#[case("é", "_")]
#[case("", "")]
fn a_key_becomes_a_variable(#[case] key: &str, #[case] expected: &str) {
    assert_eq!(variable(key), expected);
}

#[rstest]
#[case("host", "host")]
#[case("", "file")]
#[case("a/b c", "a_b_c")]
#[case("a__/_b", "a_b")]
#[case(".", "_.")]
#[case("..", "_..")]
#[case("..a", "..a")]
#[case(&"a".repeat(300), &"a".repeat(255))]
fn a_key_becomes_a_file(#[case] key: &str, #[case] expected: &str) {
    assert_eq!(file_name(key), expected);
}

#[rstest]
#[case("/config/host", "/config/host")]
#[case("/config//host/", "/config/host")]
#[case("/a/./b/../c", "/a/c")]
#[case("/../a", "/a")]
#[case("/", "/")]
fn a_path_has_one_spelling(#[case] path: &str, #[case] expected: &str) {
    assert_eq!(clean_path(path), expected);
}

#[rstest]
#[case("secret/test/redis/password", "secret/test/redis/password")]
#[case("password", "password")]
#[case("true", "\"true\"")]
#[case("No", "\"No\"")]
#[case("123", "\"123\"")]
#[case("a: b", "\"a: b\"")]
#[case("a\n- objectName: b", "\"a\\n- objectName: b\"")]
#[case("-", "\"-\"")]
#[case("", "\"\"")]
fn a_text_stays_one_text_in_yaml(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(yaml_text(text), expected);
    let read: String = serde_saphyr::from_str(&yaml_text(text)).unwrap();
    assert_eq!(read, text);
}

fn value_of(values: Value) -> Option<String> {
    let spec = json!({
        "environmentGroups": [
            {"name": "tests", "environments": ["test-environment"]},
            {"name": "all", "environments": ["production", "test-environment"]},
            {"name": "others", "environments": ["production"]},
        ],
        "configurations": [{"key": "host", "values": values}],
    });
    let group: ConfigurationGroup = object("ConfigurationGroup", "group", spec);
    held(&group.spec.configurations[0], "test-environment", &sets_of(&group, "test-environment")).map(
        |held| match held {
            Held::Plain(value) => value.to_owned(),
            Held::Vault(path) => format!("vault {path}"),
        },
    )
}

#[rstest]
#[case::own(json!([{"environment": "test-environment", "value": "own"}]), Some("own"))]
#[case::of_a_set(json!([{"environmentGroupRef": "tests", "value": "set"}]), Some("set"))]
#[case::own_before_a_set(
    json!([{"environmentGroupRef": "tests", "value": "set"}, {"environment": "test-environment", "value": "own"}]),
    Some("own")
)]
#[case::first_set(
    json!([{"environmentGroupRef": "all", "value": "one"}, {"environmentGroupRef": "tests", "value": "two"}]),
    Some("one")
)]
#[case::in_the_vault(json!([{"environment": "test-environment", "vaultKey": "a/b"}]), Some("vault a/b"))]
#[case::of_others(
    json!([{"environment": "production", "value": "p"}, {"environmentGroupRef": "others", "value": "o"}]),
    None
)]
#[case::of_a_set_that_is_not_there(json!([{"environmentGroupRef": "none", "value": "x"}]), None)]
#[case::empty(json!([{"environment": "test-environment", "value": ""}]), None)]
fn an_environment_has_its_own_value_or_that_of_a_set(#[case] values: Value, #[case] expected: Option<&str>) {
    assert_eq!(value_of(values).as_deref(), expected);
}
