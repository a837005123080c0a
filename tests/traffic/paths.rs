//! Spellings of a path, at an operation with a policy of its own beside a wildcard with another one.

use serde_json::json;

use crate::{
    policies::{bearer, jwt, only, policy},
    routes::{rewrite, rewritten_by, route, rule},
    support::Site,
};

const HOST: &str = "paths.localhost";

/// Other spellings of the operation: its own policy decides.
const OPERATION: &[&str] = &[
    "GET /shop/api/books/1",
    "GET //shop/api/books/1",
    "GET /shop/api//books//1",
    r"GET /shop\api/books\1",
    "GET /shop/api/./books/1",
    "GET /shop/api/x/../books/1",
    "GET /shop/api/x/%2e%2e/books/1",
    "GET /../shop/api/books/1",
    "GET /shop/api/%62ooks/1",
    "GET /shop/api/books/1;x=1",
    "GET /shop/api/books/1?x=1",
    "GET /shop/api/books/1?/../../films",
    "GET /shop/api/books/1%3fx",
    "GET http://paths.localhost/shop/api/books/1",
];
/// Not the operation for Envoy, though for some servers: the wildcard's policy decides, so that it must not be weaker
/// than what such a server would do with these.
const WILDCARD: &[&str] = &[
    "GET /shop/api/books",
    "GET /shop/api/books/1/",
    "GET /shop/api/books/1/..",
    "GET /shop/api/books/..;/films",
    "GET /shop/api/books;x=1/1",
    "GET /shop/api/Books/1",
    "GET /shop/api/books?/1",
    "HEAD /shop/api/books/1",
    "POST /shop/api/books/1",
];
/// Escaped slashes: the client is sent to the path without them, which is then checked.
const REDIRECTED: &[&str] = &[
    "GET /shop/api/books%2f1",
    "GET /shop%2Fapi/books/1",
    "GET /shop/api/books%5c1",
    "GET /shop/api/..%2f..%2fetc",
];
const REFUSED: &[&str] = &[
    "GET /shop/api/books/1%00",
    "GET /shop/api/books/1\0",
    "GET /shop/api/books/1#x",
    "GET shop/api/books/1",
    "get /shop/api/books/1",
    "GET *",
];
const UNKNOWN: &[&str] = &[
    "GET /shop/api/../../etc",
    "GET /SHOP/api/books/1",
    "GET /shop/api;/books/1",
    "GET http://other.localhost/shop/api/books/1",
];

pub async fn no_spelling_of_a_path_gets_around_a_policy(site: &Site) {
    let marked = |name: &str| json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-route", "value": name}]}});
    let to_base = json!({"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/base"}});
    let wildcard = json!([{"type": "URLRewrite", "urlRewrite": to_base}, marked("wildcard")]);
    let operation = json!([rewritten_by("operation"), marked("operation")]);
    let mut operation = rule("RegularExpression", "/shop/api/books/[^/]+", &operation);
    operation["matches"][0]["method"] = json!("GET");
    site.apply(&[
        policy("SecurityPolicy", "wildcard", &json!({"jwt": jwt(site)})),
        policy("SecurityPolicy", "operation", &json!({"jwt": jwt(site), "authorization": only("books")})),
        rewrite("operation", "^/shop/api", "/base"),
        route("wildcard", HOST, &rule("PathPrefix", "/shop/api", &wildcard)),
        route("operation", HOST, &operation),
    ])
    .await;

    // Good for the wildcard, but not for the operation.
    let token = bearer(site, &["other"], 600);
    let token = [("authorization", token.as_str())];
    site.until(403, HOST, "/shop/api/books/1", &token).await;
    site.until(200, HOST, "/shop/api/films", &token).await;
    for (spellings, without, with) in [
        (OPERATION, 401, 403),
        (WILDCARD, 401, 200),
        (REDIRECTED, 307, 307),
        (REFUSED, 400, 400),
        (UNKNOWN, 404, 404),
    ] {
        for spelling in spellings {
            let (method, target) = spelling.split_once(' ').unwrap();
            assert_eq!(
                site.ask(method, HOST, target, &[]).await.status,
                without,
                "{spelling} without a token"
            );
            let answer = site.ask(method, HOST, target, &token).await;
            assert_eq!(answer.status, with, "{spelling}: {answer:?}");
            if with == 200 && method != "HEAD" {
                assert_eq!(answer.told()["headers"]["x-route"], "wildcard", "{spelling}: {answer:?}");
            }
        }
    }
}
