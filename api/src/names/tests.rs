use super::*;
use proptest::prelude::*;
use rstest::rstest;

/// Vectors of the reference: they tie us to the names of objects that exist already.
#[rstest]
#[case(NameKind::Object, &["project", "component"], "project-component-932d1646")]
#[case(NameKind::Object, &["My_Project$", "Component@Name"], "my-project-component-name-40314333")]
#[case(NameKind::Object, &["-invalid-start", "invalid-end-"], "invalid-start-invalid-end-f124257d")]
#[case(NameKind::Object, &["", ""], "3973e022")]
#[case(NameKind::Object, &["!!!", "###"], "606b424e")]
#[case(NameKind::Object, &["ProjectName", "ComponentName"], "projectname-componentname-755d4ced")]
#[case(NameKind::Object, &["project.name", "component.name"], "project.name-component.name-851db5b2")]
#[case(
    NameKind::Object,
    &["project_name with spaces", "component_name"],
    "project-name-with-spaces-component-name-101f1326"
)]
#[case(
    NameKind::Namespace,
    &["dp", "test-organization", "my-project", "test-environment"],
    "dp-test-organiza-my-project-test-environ-04bdf416"
)]
#[case(NameKind::CronJob, &["my-component", "my-main-track"], "my-component-my-main-track-a43a18e7")]
#[case(NameKind::Service, &["my-component", "my-main-track"], "my-component-my-main-track-a43a18e7")]
#[case(NameKind::Object, &["my-component", "my-main-track"], "my-component-my-main-track-a43a18e7")]
#[case(
    NameKind::Object,
    &["my-component", "my-main-track", "redis-config-group"],
    "my-component-my-main-track-redis-config-group-b8ef9df9"
)]
#[case(
    NameKind::Object,
    &["my-component", "my-main-track", "mysql-config-group"],
    "my-component-my-main-track-mysql-config-group-e7d2f2be"
)]
#[case(
    NameKind::Object,
    &["my-component", "my-main-track", "salesforce-config-group"],
    "my-component-my-main-track-salesforce-config-group-02c7b6b2"
)]
#[case(
    NameKind::Object,
    &["my-component", "my-main-track", "filemount-4ea60343"],
    "my-component-my-main-track-filemount-4ea60343-a80bc9b2"
)]
#[case(NameKind::Volume, &["redis-config-group", "cm"], "redis-config-group-cm-2551b38a")]
#[case(NameKind::Volume, &["redis-config-group", "csi"], "redis-config-group-csi-5fdf4f87")]
#[case(NameKind::Volume, &["redis-config-group", "csi-env"], "redis-config-group-csi-env-8c381b83")]
#[case(NameKind::Volume, &["mysql-config-group", "cm"], "mysql-config-group-cm-6e0397eb")]
#[case(NameKind::Volume, &["mysql-config-group", "csi"], "mysql-config-group-csi-c00642f6")]
#[case(NameKind::Object, &["gateway-external", "test-endpoint"], "gateway-external-test-endpoint-2870b170")]
#[case(NameKind::Object, &["gateway-internal", "test-endpoint"], "gateway-internal-test-endpoint-5efa322c")]
#[case(
    NameKind::Object,
    &["gateway-external", "test-endpoint", "GET", "/books"],
    "gateway-external-test-endpoint-get-books-3dd70940"
)]
#[case(
    NameKind::Object,
    &["gateway-external", "test-endpoint", "POST", "/books"],
    "gateway-external-test-endpoint-post-books-5a07271d"
)]
#[case(
    NameKind::Object,
    &["gateway-external", "test-endpoint", "GET", "/books/{id}"],
    "gateway-external-test-endpoint-get-books--id-946b0081"
)]
#[case(
    NameKind::Service,
    &["service-component-basic", "test-track"],
    "service-component-basic-test-track-1b4959e7"
)]
#[case(
    NameKind::Namespace,
    &["dp", "default-org", "test-project", "test-env"],
    "dp-default-org-test-project-test-env-a545d497"
)]
#[case(
    NameKind::Namespace,
    &["dp", "default", "default", "development"],
    "dp-default-default-development-f8e58905"
)]
#[case(
    NameKind::Namespace,
    &["dp", "a-very-long-organization-name", "a-very-long-project-name", "pre-production"],
    "dp-a-very-long-o-a-very-long-p-pre-producti-bdb4b750"
)]
#[case(NameKind::Object, &["my-deployment", "my-endpoint"], "my-deployment-my-endpoint-d4122a23")]
#[case(NameKind::Object, &["my-deployment", "endpoint"], "my-deployment-endpoint-ec6e6976")]
#[case(NameKind::Object, &["greeter-dev", "greeter-api"], "greeter-dev-greeter-api-3faddfbf")]
#[case(NameKind::Object, &["gateway-external", "books-dev-api-x"], "gateway-external-books-dev-api-x-83421da0")]
#[case(NameKind::Object, &["gateway-internal", "books-dev-api-x"], "gateway-internal-books-dev-api-x-148eb29b")]
#[case(
    NameKind::Object,
    &["gateway-external", "books-dev-api-x", "GET", "/items/{id}"],
    "gateway-external-books-dev-api-x-get-items--id-ac1c9918"
)]
#[case(NameKind::Namespace, &["dp", "acme", "shop", "dev"], "dp-acme-shop-dev-1c11194b")]
#[case(NameKind::Service, &["books", "main"], "books-main-2b22c75e")]
fn names_are_those_of_the_reference(#[case] kind: NameKind, #[case] parts: &[&str], #[case] expected: &str) {
    assert_eq!(generate(kind, parts), expected);
}

#[test]
fn long_parts_share_the_room_and_the_first_gets_the_remainder() {
    let (a, b) = ("a".repeat(300), "b".repeat(260));
    assert_eq!(generate(NameKind::Object, &[&a, "component"]), format!("{}-component-a250aee3", &a[..122]));
    let name = generate(NameKind::Object, &[&a[..260], &b]);
    assert_eq!(name, format!("{}-{}-654ba7cd", &a[..122], &b[..121]));
    assert_eq!(name.len(), 253);
}

#[test]
fn the_hash_of_a_file_mount_is_that_of_its_path() {
    assert_eq!(short_hash("/app/config.json"), "4ea60343");
}

/// Names that the formula alone would leave invalid; the hash stays that of the parts as they were given.
#[rstest]
#[case(NameKind::Namespace, &["dp", "acme.io", "shop", "dev"], "dp-acme-io-shop-dev-")]
#[case(NameKind::Volume, &["redis.config", "cm"], "redis-config-cm-")]
#[case(NameKind::Service, &["2048-game", "main"], "s2048-game-main-")]
#[case(NameKind::Service, &["!!!", "###"], "s--606b424e")]
#[case(NameKind::Object, &["gateway-external", "café", "GET", "/menü"], "gateway-external-caf-get-men-")]
#[case(NameKind::Object, &["a..b", "c"], "a--b-c-")]
#[case(NameKind::Object, &["a.-b", "c"], "a--b-c-")]
fn invalid_characters_are_replaced(#[case] kind: NameKind, #[case] parts: &[&str], #[case] start: &str) {
    let name = generate(kind, parts);
    assert!(name.starts_with(start), "{name}");
    assert!(name.ends_with(&short_hash(&parts.join("-"))), "{name}");
    assert!(kind.accepts(&name), "{name}");
}

/// Characters outside ASCII that the formula turns into ASCII stay as the formula has them.
#[rstest]
#[case("\u{212A}elvin", "kelvin-")] // KELVIN SIGN lower-cases to k
#[case("\u{130}stanbul", "istanbul-")] // its single-character mapping is i
#[case("a\u{345}b", "a-b-")] // a combining mark is no letter
fn characters_that_become_ascii_follow_the_formula(#[case] part: &str, #[case] start: &str) {
    let name = generate(NameKind::Object, &[part]);
    assert!(name.starts_with(start), "{name}");
}

#[test]
fn a_character_cut_in_half_does_not_spoil_the_name() {
    // Room for 27 bytes a part: the two-byte character stands on the border.
    let part = format!("{}é", "a".repeat(26));
    let name = generate(NameKind::Service, &[&part, "main"]);
    assert_eq!(name, format!("{}-main-{}", "a".repeat(26), short_hash(&format!("{part}-main"))));
}

#[rstest]
#[case(NameKind::Object, "a.b", true)]
#[case(NameKind::Object, "a..b", false)]
#[case(NameKind::Object, "", false)]
#[case(NameKind::Namespace, "a.b", false)]
#[case(NameKind::Namespace, "1a", true)]
#[case(NameKind::Service, "1a", false)]
#[case(NameKind::Service, "a-", false)]
#[case(NameKind::Volume, "A", false)]
fn validity_is_that_of_kubernetes(#[case] kind: NameKind, #[case] name: &str, #[case] valid: bool) {
    assert_eq!(kind.accepts(name), valid);
}

fn any_kind() -> impl Strategy<Value = NameKind> {
    prop_oneof![
        Just(NameKind::Object),
        Just(NameKind::Namespace),
        Just(NameKind::Service),
        Just(NameKind::CronJob),
        Just(NameKind::Job),
        Just(NameKind::Container),
        Just(NameKind::Volume),
    ]
}

fn any_part() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?",
        2 => "[a-zA-Z0-9._/{} -]{0,300}",
        1 => "\\PC{0,80}",
        1 => ".{0,20}",
    ]
}

/// The formula as it is written down, over characters, without regard to validity: what the reference gives
/// for ASCII input.
fn formula(limit: usize, parts: &[&str]) -> String {
    let hash = short_hash(&parts.join("-"));
    let budget = limit - 8 - parts.len();
    let cut: Vec<String> = parts
        .iter()
        .enumerate()
        .map(|(i, part)| {
            let keep = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
            let text: String =
                part.to_ascii_lowercase().chars().map(|c| if keep(c) { c } else { '-' }).collect();
            let max = budget / parts.len() + usize::from(i < budget % parts.len());
            text.trim_matches(['-', '.']).chars().take(max).collect()
        })
        .collect();
    format!("{}-{hash}", cut.join("-")).trim_matches(|c: char| !c.is_alphanumeric()).to_owned()
}

proptest! {
    #[test]
    fn any_input_gives_a_valid_name(kind in any_kind(), parts in prop::collection::vec(any_part(), 1..6)) {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let name = generate(kind, &parts);
        prop_assert!(kind.accepts(&name), "{name:?}");
        prop_assert_eq!(&name, &generate(kind, &parts));
        prop_assert!(name.ends_with(&short_hash(&parts.join("-"))));
    }

    #[test]
    fn a_name_that_is_valid_by_the_formula_alone_is_kept(
        kind in any_kind(),
        parts in prop::collection::vec("[a-zA-Z0-9._/ -]{0,90}", 1..6),
    ) {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let expected = formula(kind.limit(), &parts);
        if kind.accepts(&expected) {
            prop_assert_eq!(generate(kind, &parts), expected);
        }
    }
}
