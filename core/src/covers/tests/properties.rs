//! Whatever the JSON.

use proptest::{collection, prelude::*, sample::Index};
use serde_json::Map;

use super::*;

/// Names that mean something, and some that do not.
fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "apiVersion",
            "kind",
            "metadata",
            "spec",
            "status",
            "data",
            "labels",
            "annotations",
            "finalizers",
            "containers",
            "env",
            "name",
            "ports",
            "port",
            "containerPort",
            "protocol",
            "volumeMounts",
            "mountPath",
            "resources",
            "limits",
            "requests",
            "storage",
            "capacity",
            "uid",
            "rules",
            "conditions",
            "type",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,3}",
        any::<String>(),
    ]
}

fn scalars() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(vec!["", "1", "1000m", "1Gi", "1024Mi", "1e3", "TCP", "Service", "v1", "a"])
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    scalars().prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            1 => collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            2 => collection::btree_map(names(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// What has fields, as objects do.
fn objects() -> impl Strategy<Value = Value> {
    collection::btree_map(names(), values(), 1..6)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

/// Adds a field to every map, of a name that no intent has, and reverses the order of fields where there is one.
fn with_extra_keys(value: &Value, extra: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut all: Map<String, Value> = fields
                .iter()
                .rev()
                .map(|(name, value)| (name.clone(), with_extra_keys(value, extra)))
                .collect();
            all.insert("\u{0}extra".to_owned(), extra.clone());
            Value::Object(all)
        }
        Value::Array(items) => items.iter().map(|item| with_extra_keys(item, extra)).collect(),
        _ => value.clone(),
    }
}

/// JSON pointers of what has no fields and items, with what a comparison leaves out left out.
fn leaves(value: &Value) -> Vec<String> {
    fn collect(value: &Value, at: &str, in_list: bool, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                    let server_set = SERVER_SET.iter().any(|name| path == format!("/metadata/{name}"));
                    let not_compared = NOT_COMPARED.iter().any(|name| path == format!("/{name}"));
                    if !server_set && !not_compared {
                        collect(value, &path, false, found);
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    collect(item, &format!("{at}/{index}"), true, found);
                }
            }
            // Not set, unless it takes a place in a list.
            Value::Null if !in_list => {}
            _ => found.push(at.to_owned()),
        }
    }
    let mut found = Vec::new();
    collect(value, "", false, &mut found);
    found
}

/// Something else, of no amount and not empty, that no strategy gives.
fn other_than(value: &Value) -> Value {
    match value {
        Value::Bool(value) => json!(!value),
        Value::Number(_) => json!("another"),
        _ => json!("\u{0}another"),
    }
}

/// `value` with another value at one of its `leaves`, and the place. None if it has none.
fn with_another_leaf(value: &Value, which: Index) -> Option<(Value, String)> {
    let leaves = leaves(value);
    let place = (!leaves.is_empty()).then(|| which.get(&leaves).clone())?;
    let mut changed = value.clone();
    let leaf = changed.pointer_mut(&place)?;
    *leaf = other_than(leaf);
    Some((changed, place))
}

/// Checks that everything tells two values apart.
fn check_change(value: &Value, changed: &Value) -> Result<(), TestCaseError> {
    prop_assert!(!covers(changed, value));
    prop_assert_ne!(projection_digest(changed, value), projection_digest(value, value));
    prop_assert_ne!(intent_hash(changed), intent_hash(value));
    Ok(())
}

/// JSON with the fields of maps in the opposite order.
fn backwards(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields =
                fields.iter().rev().map(|(name, value)| format!("{}:{}", json!(name), backwards(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(backwards).collect::<Vec<_>>().join(",")),
        other => canonical::text(other),
    }
}

/// Items of a list that is merged by `name`.
fn named(fields: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    collection::btree_map("[a-c]{1,2}", fields, 0..4)
        .prop_map(|items| {
            let item = |(name, mut fields): (String, Value)| {
                fields["name"] = json!(name);
                fields
            };
            items.into_iter().map(item).collect()
        })
        .boxed()
}

fn pod_specs() -> impl Strategy<Value = Value> {
    let env = named("[a-z0-9]{0,3}".prop_map(|value| json!({"value": value})).boxed());
    let ports = collection::btree_map((1..4, "TCP|UDP"), 0..3, 0..4).prop_map(|ports| -> Value {
        let port =
            |((port, protocol), host)| json!({"containerPort": port, "protocol": protocol, "hostPort": host});
        ports.into_iter().map(port).collect()
    });
    let args = collection::vec("[ab]{0,1}", 0..3);
    let container = (env, ports, args, 1..4_i64).prop_map(|(env, ports, args, cpu)| {
        json!({"env": env, "ports": ports, "args": args, "resources": {"limits": {"cpu": cpu.to_string()}}})
    });
    let volumes = named(Just(json!({"emptyDir": {}})).boxed());
    (named(container.boxed()), volumes)
        .prop_map(|(containers, volumes)| pods(&json!({"containers": containers, "volumes": volumes})))
}

/// What other managers and the API server make of an object: other items in front of ours, which are in the opposite
/// order, quantities in another spelling, and nothing that is empty.
fn lived_in(value: &Value, list: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| list == "ports" || !is_empty(value));
            kept.map(|(name, value)| (name.clone(), lived_in(value, name))).collect()
        }
        Value::Array(items) if list == "args" => Value::Array(items.clone()),
        Value::Array(items) => {
            let foreign = json!({"name": "zz-foreign", "containerPort": 99, "value": "x"});
            std::iter::once(foreign).chain(items.iter().rev().map(|item| lived_in(item, list))).collect()
        }
        Value::String(cpu) if list == "cpu" => json!(format!("{cpu}000m")),
        _ => value.clone(),
    }
}

proptest! {
    #[test]
    fn every_object_covers_itself(value in values()) {
        prop_assert_eq!(first_difference(&value, &value), None);
    }

    #[test]
    fn extra_keys_are_no_difference(value in values(), extra in values()) {
        let more = with_extra_keys(&value, &extra);
        prop_assert_eq!(first_difference(&more, &value), None);
        prop_assert_eq!(projection_digest(&more, &value), projection_digest(&value, &value));
    }

    #[test]
    fn any_change_of_a_leaf_is_a_difference(value in objects(), which in any::<Index>()) {
        if let Some((changed, _)) = with_another_leaf(&value, which) {
            check_change(&value, &changed)?;
        }
    }

    #[test]
    fn what_others_add_to_a_workload_is_no_difference(intent in pod_specs()) {
        let live = lived_in(&intent, "");
        prop_assert_eq!(first_difference(&live, &intent), None);
        prop_assert_eq!(projection_digest(&live, &intent), projection_digest(&intent, &intent));
    }

    #[test]
    fn any_change_of_a_workload_is_a_difference(intent in pod_specs(), which in any::<Index>()) {
        if let Some((changed, _)) = with_another_leaf(&intent, which) {
            check_change(&intent, &changed)?;
            // Also when others had a hand in it.
            let live = lived_in(&changed, "");
            prop_assert!(!covers(&live, &intent));
            prop_assert_ne!(projection_digest(&live, &intent), projection_digest(&intent, &intent));
        }
    }

    #[test]
    fn a_field_that_is_gone_is_a_difference_unless_it_was_empty(value in objects(), which in any::<Index>()) {
        let Some((_, place)) = with_another_leaf(&value, which) else { return Ok(()) };
        let Some((parent, name)) = place.rsplit_once('/') else { return Ok(()) };
        let name = name.replace("~1", "/").replace("~0", "~");
        let mut without = value.clone();
        if let Some(Value::Object(fields)) = without.pointer_mut(parent) {
            let gone = fields.remove(&name).unwrap();
            // An item that lost its key is found no more, unless the key has a default.
            let lenient = is_empty(&gone) || gone == "TCP";
            prop_assert!(lenient || !covers(&without, &value));
        }
    }

    #[test]
    fn the_digest_is_that_of_a_covering_object_exactly_if_the_object_covers(live in values(), intent in values()) {
        let same = projection_digest(&live, &intent) == projection_digest(&intent, &intent);
        prop_assert_eq!(covers(&live, &intent), same);
    }

    #[test]
    fn the_hash_does_not_depend_on_the_order_of_keys(value in values()) {
        // Text keeps an order; a parser that keeps it as well must not change the hash.
        let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        prop_assert_eq!(intent_hash(&parse(backwards(&value))), intent_hash(&parse(canonical::text(&value))));
    }

    #[test]
    fn the_hash_has_sixteen_digits(value in values()) {
        let hash = intent_hash(&value);
        prop_assert!(hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
    }

    #[test]
    fn paths_have_no_secret_values(value in objects(), which in any::<Index>()) {
        let Some((changed, place)) = with_another_leaf(&value, which) else { return Ok(()) };
        let mut secret = value.clone();
        *secret.pointer_mut(&place).unwrap() = json!("\u{0}hunter2");
        for (live, intent) in [(&secret, &changed), (&changed, &secret)] {
            let path = first_difference(live, intent).unwrap_or_default();
            prop_assert!(!path.contains("hunter2"), "{path}");
            prop_assert!(!path.contains(|c: char| c.is_control()), "{path}");
        }
    }

    #[test]
    fn quantities_are_read_without_panic(text in "[+-]?[0-9.]{0,40}[a-zA-Z]{0,2}[+-]?[0-9]{0,25}", any in any::<String>()) {
        let _ = (quantity::nanos(&text), quantity::nanos(&any));
    }

    #[test]
    fn quantities_of_equal_amount_are_equal(amount in 0_i64..1 << 33) {
        let of = |text: String| quantity::nanos(&text);
        prop_assert_eq!(of(amount.to_string()), Some(i128::from(amount) * 1_000_000_000));
        prop_assert_eq!(of(format!("{amount}m")), of(format!("{amount}e-3")));
        prop_assert_eq!(of(format!("{amount}m")), of(format!("{}.{:03}", amount / 1000, amount % 1000)));
        prop_assert_eq!(of(format!("{amount}Ki")), of((amount * 1024).to_string()));
        prop_assert_eq!(of(format!("{amount}Mi")), of(format!("{}Ki", amount * 1024)));
        prop_assert_ne!(of(format!("{amount}m")), of(format!("{}m", amount + 1)));
    }
}

/// Values of metadata as objects have them, rare ones among them.
fn metadata() -> impl Strategy<Value = Value> {
    let texts = || collection::btree_map(names(), ".{0,4}", 0..4);
    let noted = texts().prop_flat_map(|texts| {
        any::<bool>().prop_map(move |hashed| {
            let mut texts = texts.clone();
            texts.extend(hashed.then(|| ("openchoreo.dev/intent-hash".to_owned(), "x".to_owned())));
            texts
        })
    });
    let fields = (
        proptest::option::of(noted),
        proptest::option::of(texts()),
        proptest::option::of(names()),
        proptest::option::of(names()),
        proptest::option::of(collection::vec(names(), 0..3)),
        proptest::option::weighted(0.2, names()),
    );
    fields.prop_map(|(annotations, labels, name, namespace, finalizers, uid)| {
        let all = json!({"annotations": annotations, "labels": labels, "name": name, "namespace": namespace,
            "finalizers": finalizers, "uid": uid});
        let Value::Object(fields) = all else { return all };
        Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect())
    })
}

/// Objects, and the same as JSON.
fn whole_objects() -> impl Strategy<Value = (DynamicObject, Value)> {
    (metadata(), objects(), any::<bool>()).prop_map(|(metadata, data, typed)| {
        let mut whole = data;
        whole["metadata"] = metadata;
        for name in ["apiVersion", "kind"] {
            if let Some(fields) = whole.as_object_mut() {
                fields.remove(name);
            }
            if typed {
                whole[name] = json!("v1");
            }
        }
        let object: DynamicObject = serde_json::from_value(whole).unwrap();
        let whole = serde_json::to_value(&object).unwrap();
        (object, whole)
    })
}

proptest! {
    #[test]
    fn objects_have_the_hash_of_their_json((object, json) in whole_objects()) {
        prop_assert_eq!(canonical::object(&object), Some(canonical::intent(&json)));
        prop_assert_eq!(object_hash(&object), Some(intent_hash(&json)));
    }

    #[test]
    fn objects_are_compared_as_their_json_is(live in whole_objects(), intent in whole_objects(), same in any::<bool>()) {
        let ((live, live_json), (mut intent, mut intent_json)) = (live, intent);
        if same {
            (intent, intent_json) = (live.clone(), live_json.clone());
            intent.metadata.name = Some("other".to_owned());
            intent_json["metadata"]["name"] = json!("other");
        }
        prop_assert_eq!(first_difference_of(&live, &intent), first_difference(&live_json, &intent_json));
        prop_assert_eq!(projection_digest_of(&live, &intent), projection_digest(&live_json, &intent_json));
    }
}
