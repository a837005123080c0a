//! Answers that the proxy makes itself, in the form the apiserver gives them.

use http_body_util::{BodyExt, Full};
use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{self, HeaderValue},
};
use serde_json::{Value, json};

use super::{fault::StatusReply, forward::Body, request::Target};

/// A `Status` reply about `target`.
pub(super) fn status_response(reply: &StatusReply, target: &Target) -> Response<Body> {
    let body = Bytes::from(status(reply, Some(target)).to_string());
    let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(reply.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = reply.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// An answer of 200 with this body.
pub(super) fn json_response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// JSON as a body.
pub(super) fn json_body(value: &Value) -> Body {
    Full::new(Bytes::from(value.to_string())).map_err(|never| match never {}).boxed_unsync()
}

/// The watch event by which the server says that a resource version is too old, as one line.
pub(super) fn expired_event() -> Bytes {
    let status = status(&StatusReply::new(410).message("too old resource version: 1 (2)"), None);
    Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": status})))
}

fn status(reply: &StatusReply, target: Option<&Target>) -> Value {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reply.message, "reason": reply.reason, "code": reply.code,
    });
    let mut details = serde_json::Map::new();
    if let Some(target) = target.filter(|target| target.is_resource()) {
        // The apiserver puts the plural here, whatever the field is called.
        details.insert("kind".to_owned(), json!(target.resource));
        details.insert("group".to_owned(), json!(target.group));
        details.insert("name".to_owned(), json!(target.name));
        details.retain(|_, value| !value.is_null() && value != "");
    }
    if let Some(seconds) = reply.retry_after {
        details.insert("retryAfterSeconds".to_owned(), json!(seconds));
    }
    if !details.is_empty() {
        status["details"] = Value::Object(details);
    }
    status
}
