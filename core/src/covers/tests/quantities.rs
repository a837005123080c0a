use rstest::rstest;

use super::*;
use crate::covers::quantity::nanos;

#[rstest]
#[case("1000m", "1")]
#[case("1024Mi", "1Gi")]
#[case("0.5", "500m")]
#[case(".5", "500m")]
#[case("1.", "1")]
#[case("1e3", "1k")]
#[case("1E3", "1k")]
#[case("1E", "1e18")]
#[case("1e+3", "1000")]
#[case("1e-3", "1m")]
#[case("1000000u", "1")]
#[case("1000000000n", "1")]
#[case("+1", "1")]
#[case("-1000m", "-1")]
#[case("-0", "0")]
#[case("0Gi", "0")]
#[case("000100", "100")]
#[case("1.5Gi", "1536Mi")]
#[case("0.0009765625Ki", "1")]
#[case("1Ei", "1024Pi")]
#[case("1Ti", "1099511627776")]
// The API server rounds what is smaller than a billionth, and caps what is too large.
#[case("0.1n", "1n")]
#[case("1.1n", "2n")]
#[case("-0.1n", "-1n")]
#[case("0.0000000000001Ki", "1n")]
#[case("1e-999999", "1n")]
#[case("9223372036854775807", "9223372036854775808")]
#[case("9223372036854775807", "1e999999")]
#[case("9223372036854775807", "100Ei")]
#[case("0e999999", "0")]
fn equal_amounts_are_the_same(#[case] a: &str, #[case] b: &str) {
    assert!(nanos(a).is_some());
    assert_eq!(nanos(a), nanos(b), "{a} {b}");
}

#[rstest]
#[case("1", "2")]
#[case("1", "-1")]
#[case("1M", "1Mi")]
#[case("1m", "1M")]
#[case("1k", "1Ki")]
#[case("1n", "2n")]
#[case("9007199254740993", "9007199254740992")]
#[case("9223372036854775806.999999999", "9223372036854775807")]
#[case("0.1", "0.100000001")]
#[case("1.0000001Gi", "1Gi")]
fn other_amounts_are_not(#[case] a: &str, #[case] b: &str) {
    assert!(nanos(a).is_some() && nanos(b).is_some());
    assert_ne!(nanos(a), nanos(b));
}

#[rstest]
fn other_texts_are_no_quantities(
    #[values(
        "",
        ".",
        "-",
        "+",
        "--1",
        "1.2.3",
        "..",
        "Gi",
        "1K",
        "1gi",
        "1 Gi",
        " 1",
        "1 ",
        "e3",
        "1e",
        "1e+",
        "1e1.5",
        "1ee3",
        "1e99999999999999999999",
        "0x10",
        "1_000",
        "\u{661}",
        "1é",
        "é",
        "NaN",
        "inf",
        "1mi",
        "1Kii",
        "app"
    )]
    text: &str,
) {
    assert_eq!(nanos(text), None);
}

#[test]
fn hostile_lengths_and_exponents_are_no_danger() {
    let zeros = "0".repeat(100_000);
    assert_eq!(nanos(&format!("1{zeros}e-100000")), nanos("1"));
    assert_eq!(nanos(&format!("0.{zeros}1e100001")), nanos("1"));
    assert_eq!(nanos(&format!("{zeros}1Ei")), nanos("1Ei"));
    assert_eq!(nanos(&format!("0.{zeros}1Ei")), nanos("1n"));
    assert_eq!(nanos(&format!("1e{}", i64::MAX)), nanos("1e30"));
    assert_eq!(nanos(&format!("1e{}", i64::MIN)), nanos("1n"));
    assert_eq!(nanos(&format!("0.1e{}", i64::MIN)), nanos("1n"));
}

/// Where `amount` is a quantity.
fn quantity_places(amount: &Value) -> Vec<Value> {
    let volume = |source| pods(&json!({"volumes": [{"name": "v", "emptyDir": source}]}));
    let hpa =
        |metric| object("autoscaling/v2", "HorizontalPodAutoscaler", &json!({"spec": {"metrics": [metric]}}));
    let limit_range = |limit| object("v1", "LimitRange", &json!({"spec": {"limits": [limit]}}));
    let claim = json!({"spec": {"resources": {"requests": {"storage": amount}}}});
    vec![
        container(&json!({"resources": {"limits": {"cpu": amount}}})),
        container(&json!({"resources": {"requests": {"example.com/gpu": amount}}})),
        container(&json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"divisor": amount}}}]})),
        volume(json!({"sizeLimit": amount})),
        pods(&json!({"overhead": {"cpu": amount}})),
        object("node.k8s.io/v1", "RuntimeClass", &json!({"overhead": {"podFixed": {"cpu": amount}}})),
        object("v1", "PersistentVolume", &json!({"spec": {"capacity": {"storage": amount}}})),
        object("v1", "PersistentVolumeClaim", &claim),
        object("apps/v1", "StatefulSet", &json!({"spec": {"volumeClaimTemplates": [claim]}})),
        object("v1", "ResourceQuota", &json!({"spec": {"hard": {"requests.cpu": amount}}})),
        limit_range(json!({"max": {"cpu": amount}})),
        limit_range(json!({"min": {"cpu": amount}})),
        limit_range(json!({"default": {"cpu": amount}})),
        limit_range(json!({"defaultRequest": {"cpu": amount}})),
        hpa(json!({"resource": {"target": {"averageValue": amount}}})),
        hpa(json!({"external": {"target": {"value": amount}}})),
        object("example.com/v1", "Database", &json!({"spec": {"storage": amount}})),
    ]
}

#[test]
fn quantities_are_compared_by_amount() {
    let of = |amount: Value| quantity_places(&amount);
    for (intent, (live, other)) in
        of(json!("1")).iter().zip(of(json!("1000m")).iter().zip(&of(json!("1001m"))))
    {
        assert!(covers(live, intent), "{live}");
        assert!(covers(intent, live), "{live}");
        assert_eq!(projection_digest(live, intent), projection_digest(intent, intent), "{live}");
        assert!(!covers(other, intent), "{other}");
        assert_ne!(projection_digest(other, intent), projection_digest(intent, intent), "{other}");
    }
    for (number, text) in of(json!(0.5)).iter().zip(of(json!("500m"))) {
        assert!(covers(number, &text) && covers(&text, number), "{text}");
    }
    for (no_quantity, text) in of(json!("many")).iter().zip(of(json!("1"))) {
        assert!(covers(no_quantity, no_quantity) && !covers(no_quantity, &text), "{text}");
        assert!(!covers(&text, no_quantity), "{text}");
    }
}

/// Where `amount` is a text.
fn text_places(amount: &Value) -> Vec<Value> {
    vec![
        object("v1", "ConfigMap", &json!({"data": {"storage": amount}})),
        object("v1", "ConfigMap", &json!({"data": {"sizeLimit": amount}})),
        object("storage.k8s.io/v1", "StorageClass", &json!({"parameters": {"storage": amount}})),
        json!({"metadata": {"annotations": {"storage": amount}}}),
        json!({"metadata": {"labels": {"storage": amount}}}),
        object("v1", "Service", &json!({"spec": {"selector": {"storage": amount}}})),
        json!({"spec": {"capacity": {"labels": {"storage": amount}}}}),
        container(&json!({"env": [{"name": "limits", "value": amount}]})),
        container(&json!({"args": [amount]})),
        container(&json!({"image": amount})),
        object("example.com/v1", "Database", &json!({"spec": {"target": {"value": amount}}})),
        object("example.com/v1", "Database", &json!({"spec": {"limits": [{"max": {"cpu": amount}}]}})),
    ]
}

#[test]
fn texts_that_look_like_quantities_are_texts() {
    for (intent, live) in text_places(&json!("1")).iter().zip(text_places(&json!("1000m"))) {
        assert!(covers(intent, intent), "{intent}");
        assert!(!covers(&live, intent), "{live}");
        assert_ne!(projection_digest(&live, intent), projection_digest(intent, intent), "{live}");
    }
}
