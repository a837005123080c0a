use super::*;

fn jwt(payload: &str) -> String {
    format!("{}.{}.signature", URL_SAFE_NO_PAD.encode("{}"), URL_SAFE_NO_PAD.encode(payload))
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn a_jwt_tells_when_it_expires() {
    assert_eq!(jwt_expiry(&jwt(r#"{"exp": 1893456000}"#)), Some(at("2030-01-01T00:00:00Z")));
    assert_eq!(jwt_expiry(&jwt(r#"{"exp": 1893456000.75}"#)), Some(at("2030-01-01T00:00:00Z")));
}

#[test]
fn what_cannot_be_read_of_a_token_says_nothing() {
    let deep = jwt(&"[".repeat(10_000));
    let tokens = [
        "opaque",
        "",
        "..",
        "a.b.c",
        "a.!.c",
        &jwt("{}"),
        &jwt("[]"),
        &jwt("canary"),
        &jwt(r#"{"exp": "1893456000"}"#),
        &jwt(r#"{"exp": 1e300}"#),
        &jwt(r#"{"exp": -9223372036854775808}"#),
        &format!("{}.more", jwt(r#"{"exp": 1893456000}"#)),
        &deep,
    ];
    for token in tokens {
        assert_eq!(jwt_expiry(token), None, "{token}");
    }
}

#[test]
fn both_forms_of_time_are_read() {
    assert_eq!(time_of(UTC_TIME, b"310203040506Z"), Some(at("2031-02-03T04:05:06Z")));
    assert_eq!(time_of(UTC_TIME, b"500101000000Z"), Some(at("1950-01-01T00:00:00Z")));
    assert_eq!(time_of(GENERALIZED_TIME, b"20510203040506Z"), Some(at("2051-02-03T04:05:06Z")));
}

#[test]
fn what_is_no_time_says_nothing() {
    for (tag, text) in [
        (UTC_TIME, "310203040506"),
        (UTC_TIME, "20510203040506Z"),
        (UTC_TIME, "311303040506Z"),
        (UTC_TIME, "+10203040506Z"),
        (UTC_TIME, "31020304050é"),
        (GENERALIZED_TIME, "310203040506Z"),
        (GENERALIZED_TIME, "99991231235959Z"),
        (INTEGER, "310203040506Z"),
    ] {
        assert_eq!(time_of(tag, text.as_bytes()), None, "{text}");
    }
}

#[test]
fn broken_der_says_nothing() {
    for der in [
        &[][..],
        &[SEQUENCE],
        &[SEQUENCE, 5],
        &[SEQUENCE, 0x82, 1],
        &[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff],
        &[SEQUENCE, 0x80],
        &[SEQUENCE, 2, SEQUENCE, 0],
        &[INTEGER, 1, 1],
    ] {
        assert_eq!(not_after(der), None, "{der:?}");
    }
}
