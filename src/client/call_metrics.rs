//! Requests to a cluster: how many, what for, and what came of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use tower::{Layer, Service};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verb(pub(crate) &'static str);

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer(pub(crate) &'static str);

impl Verb {
    /// That of a request to a Kubernetes API server.
    pub fn of<B>(request: &Request<B>) -> Self {
        let applies = request
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"application/apply-patch"));
        Self(match *request.method() {
            Method::GET | Method::HEAD if is_watch(request.uri().query()) => "watch",
            Method::GET | Method::HEAD if is_collection(request.uri().path()) => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH if applies => "apply",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "get",
        })
    }

    /// Whether it is a watch.
    pub fn is_watch(self) -> bool {
        self.0 == "watch"
    }
}

impl Answer {
    const TIMEOUT: Self = Self("timeout");
    const UNREACHABLE: Self = Self("unreachable");

    const fn of(status: StatusCode) -> Self {
        Self(match status.as_u16() {
            200..=299 => "ok",
            404 => "not_found",
            409 => "conflict",
            429 => "throttled",
            400..=499 => "refused",
            _ => "error",
        })
    }
}

fn is_watch(query: Option<&str>) -> bool {
    query.unwrap_or_default().split('&').any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}

/// Whether a path names all objects of a kind: `/api/v1/…` or `/apis/group/version/…`, then `plural` or
/// `namespaces/name/plural`.
fn is_collection(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let before = match parts.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return false,
    };
    let rest: Vec<&str> = parts.skip(before).collect();
    matches!(rest.as_slice(), [_] | ["namespaces", _, _])
}

/// The requests to one cluster. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<State>>);

/// Requests by verb and what came of them.
pub(crate) type Done = BTreeMap<(Verb, Answer), u64>;

#[derive(Debug, Default)]
struct State {
    done: Done,
    in_flight: i64,
}

impl Calls {
    /// Counts every request that passes.
    pub fn layer(&self) -> CallsLayer {
        CallsLayer(self.clone())
    }

    /// Requests that were answered or given up, and how many were not yet.
    pub(crate) fn read(&self) -> (Done, i64) {
        self.with(|state| (state.done.clone(), state.in_flight))
    }

    fn begin(&self, verb: Verb) -> Call {
        self.with(|state| state.in_flight += 1);
        // Whoever drops it before there is an answer has lost patience.
        Call { calls: self.clone(), verb, answer: Answer::TIMEOUT }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request under way; counted when it is dropped.
struct Call {
    calls: Calls,
    verb: Verb,
    answer: Answer,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.calls.with(|state| {
            state.in_flight -= 1;
            *state.done.entry((self.verb, self.answer)).or_default() += 1;
        });
    }
}

/// See [`Calls::layer`].
#[derive(Clone)]
pub struct CallsLayer(Calls);

impl<S> Layer<S> for CallsLayer {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { calls: self.0.clone(), inner }
    }
}

/// A service whose requests are counted.
#[derive(Clone)]
pub struct Counted<S> {
    calls: Calls,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Send + 'static>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (calls, verb) = (self.calls.clone(), Verb::of(&request));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut call = calls.begin(verb);
            let answer = answer.await;
            call.answer = answer.as_ref().map_or(Answer::UNREACHABLE, |answer| Answer::of(answer.status()));
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future};

    use rstest::rstest;
    use tower::{ServiceExt, service_fn};

    use super::*;

    #[rstest]
    #[case("GET", "/api/v1/namespaces/kube-system", "", "get")]
    #[case("GET", "/api/v1/namespaces", "", "list")]
    #[case("GET", "/api/v1/namespaces/a/secrets", "limit=500", "list")]
    #[case("GET", "/api/v1/namespaces/a/secrets/b", "", "get")]
    #[case("GET", "/apis/openchoreo.dev/v1alpha1/deployments", "", "list")]
    #[case(
        "GET",
        "/apis/openchoreo.dev/v1alpha1/deployments",
        "allowWatchBookmarks=true&watch=true",
        "watch"
    )]
    #[case("GET", "/apis/openchoreo.dev/v1alpha1/namespaces/a/deployments/b", "", "get")]
    #[case("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale", "", "get")]
    #[case("GET", "/version", "", "get")]
    #[case("GET", "/apis", "", "get")]
    #[case("POST", "/api/v1/namespaces", "", "create")]
    #[case("PUT", "/api/v1/namespaces/a", "", "update")]
    #[case("PATCH", "/api/v1/namespaces/a", "", "patch")]
    #[case("DELETE", "/api/v1/namespaces/a", "", "delete")]
    fn requests_have_verbs(
        #[case] method: &str,
        #[case] path: &str,
        #[case] query: &str,
        #[case] verb: &str,
    ) {
        let request = Request::builder().method(method).uri(format!("{path}?{query}")).body(()).unwrap();
        assert_eq!(Verb::of(&request).0, verb);
    }

    #[test]
    fn a_server_side_apply_is_told_from_other_patches() {
        let request = Request::patch("/api/v1/namespaces/a")
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .body(())
            .unwrap();
        assert_eq!(Verb::of(&request).0, "apply");
    }

    #[rstest]
    #[case(200, "ok")]
    #[case(201, "ok")]
    #[case(404, "not_found")]
    #[case(409, "conflict")]
    #[case(410, "refused")]
    #[case(401, "refused")]
    #[case(422, "refused")]
    #[case(429, "throttled")]
    #[case(500, "error")]
    #[case(503, "error")]
    fn answers_are_classed(#[case] code: u16, #[case] class: &str) {
        assert_eq!(Answer::of(StatusCode::from_u16(code).unwrap()).0, class);
    }

    #[tokio::test]
    async fn requests_are_counted_when_they_end_however_they_do() {
        let calls = Calls::default();
        let answering = |code: u16| {
            service_fn(move |_: Request<()>| {
                future::ready(Ok::<_, Infallible>(Response::builder().status(code).body(()).unwrap()))
            })
        };
        let get = || Request::get("/api/v1/namespaces/a").body(()).unwrap();
        for code in [200, 200, 409] {
            calls.layer().layer(answering(code)).oneshot(get()).await.unwrap();
        }
        let broken = service_fn(|_: Request<()>| {
            future::ready(Err::<Response<()>, _>(std::io::Error::other("broken")))
        });
        calls.layer().layer(broken).oneshot(get()).await.unwrap_err();
        let silent = service_fn(|_: Request<()>| future::pending::<Result<Response<()>, Infallible>>());
        let mut given_up = Box::pin(calls.layer().layer(silent).oneshot(get()));
        assert!(futures::poll!(&mut given_up).is_pending());
        assert_eq!(calls.read().1, 1);
        drop(given_up);

        let (done, in_flight) = calls.read();
        let done: Vec<_> =
            done.into_iter().map(|((verb, answer), count)| (verb.0, answer.0, count)).collect();
        let expected =
            [("get", "conflict", 1), ("get", "ok", 2), ("get", "timeout", 1), ("get", "unreachable", 1)];
        assert_eq!((done.as_slice(), in_flight), (&expected[..], 0));
    }
}
