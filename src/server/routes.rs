//! The routes: `/livez`, `/readyz`, `/metrics`, `/loglevel`.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    Router,
    extract::{ConnectInfo, DefaultBodyLimit, Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::SyncBoard,
    telemetry::{logging::LogFilter, metrics::Metrics},
};

/// What the probes look at.
#[derive(Clone)]
pub struct Health {
    /// How far the watches of the control plane are.
    pub sync: SyncBoard,
    /// Set when the operator is asked to end.
    pub stop: CancellationToken,
}

/// Longest filter that is taken.
const FILTER_LIMIT: usize = 4096;

#[derive(Clone)]
struct Shared {
    health: Health,
    metrics: Metrics,
    log: Arc<dyn LogFilter>,
}

/// Serves probes, metrics and the log level on `listener` until `end`.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Metrics,
    log: Arc<dyn LogFilter>,
    end: CancellationToken,
) -> std::io::Result<()> {
    let routes = routes(Shared { health, metrics, log }).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, routes).with_graceful_shutdown(async move { end.cancelled().await }).await
}

/// Serves metrics alone on `listener` until `end`.
pub async fn serve_metrics(
    listener: TcpListener,
    metrics: Metrics,
    end: CancellationToken,
) -> std::io::Result<()> {
    let routes = Router::new().route("/metrics", get(move || std::future::ready(exposed(&metrics))));
    axum::serve(listener, routes).with_graceful_shutdown(async move { end.cancelled().await }).await
}

fn routes(shared: Shared) -> Router {
    let log_level = get(log_level).put(set_log_level).layer(DefaultBodyLimit::max(FILTER_LIMIT));
    Router::new()
        .route("/loglevel", log_level)
        .route_layer(middleware::from_fn(only_from_here))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(exposition))
        .with_state(shared)
}

async fn readyz(State(shared): State<Shared>) -> (StatusCode, String) {
    if shared.health.stop.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "ending\n".to_owned());
    }
    let missing = shared.health.sync.missing();
    if missing.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for\n{}\n", missing.join("\n")))
    }
}

async fn exposition(State(shared): State<Shared>) -> Response {
    exposed(&shared.metrics)
}

fn exposed(metrics: &Metrics) -> Response {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn log_level(State(shared): State<Shared>) -> String {
    format!("{}\n", shared.log.current())
}

async fn set_log_level(State(shared): State<Shared>, filter: String) -> (StatusCode, String) {
    match shared.log.set(filter.trim()) {
        Ok(()) => (StatusCode::OK, format!("{}\n", shared.log.current())),
        Err(why) => (StatusCode::BAD_REQUEST, format!("{why}\n")),
    }
}

/// Whoever is on this machine, or has been let in by a port-forward, may turn the log up; the rest of the cluster may not.
async fn only_from_here(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if is_here(peer.ip()) {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, "served to this machine only: use kubectl port-forward\n").into_response()
    }
}

/// Not all of 127.0.0.0/8: proxies of service meshes hand the requests of others on from addresses there.
fn is_here(peer: IpAddr) -> bool {
    [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&peer.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::body::{Body, to_bytes};
    use rstest::rstest;
    use tower::ServiceExt;

    use super::*;

    struct Filter(Mutex<String>);

    impl LogFilter for Filter {
        fn current(&self) -> String {
            self.0.lock().unwrap().clone()
        }

        fn set(&self, filter: &str) -> Result<(), String> {
            if filter.contains('=') {
                return Err("expected a level".to_owned());
            }
            *self.0.lock().map_err(|_| "broken")? = filter.to_owned();
            Ok(())
        }
    }

    fn server() -> Router {
        let health = Health { sync: SyncBoard::default(), stop: CancellationToken::new() };
        let log = Arc::new(Filter(Mutex::new("info".to_owned())));
        routes(Shared { health, metrics: Metrics::default(), log })
    }

    async fn ask(server: &Router, method: &str, path: &str, body: &str, peer: &str) -> (StatusCode, String) {
        let mut request =
            Request::builder().method(method).uri(path).body(Body::from(body.to_owned())).unwrap();
        let peer: SocketAddr = peer.parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(peer));
        let response = server.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[rstest]
    #[case("127.0.0.1:1", true)]
    #[case("[::1]:1", true)]
    #[case("[::ffff:127.0.0.1]:1", true)]
    #[case("127.0.0.6:1", false)]
    #[case("10.0.0.1:1", false)]
    #[case("[fe80::1]:1", false)]
    #[tokio::test]
    async fn the_log_level_is_for_this_machine_only(#[case] peer: &str, #[case] allowed: bool) {
        let server = server();
        for (method, body) in [("GET", ""), ("PUT", "debug")] {
            let (status, _) = ask(&server, method, "/loglevel", body, peer).await;
            assert_eq!(status == StatusCode::OK, allowed, "{method} {status}");
            assert!(allowed || status == StatusCode::FORBIDDEN, "{method} {status}");
        }
        let (_, filter) = ask(&server, "GET", "/loglevel", "", "127.0.0.1:1").await;
        assert_eq!(filter, if allowed { "debug\n" } else { "info\n" });
        for path in ["/livez", "/readyz", "/metrics"] {
            assert_eq!(
                ask(&server, "GET", path, "", peer).await.0,
                StatusCode::OK,
                "{path} is for everybody"
            );
        }
    }

    #[tokio::test]
    async fn a_bad_filter_is_refused_with_what_was_expected() {
        let server = server();
        let refused = ask(&server, "PUT", "/loglevel", "a=b=c", "127.0.0.1:1").await;
        assert_eq!(refused, (StatusCode::BAD_REQUEST, "expected a level\n".to_owned()));
        let long = "a".repeat(FILTER_LIMIT + 1);
        assert_eq!(
            ask(&server, "PUT", "/loglevel", &long, "127.0.0.1:1").await.0,
            StatusCode::PAYLOAD_TOO_LARGE
        );
        assert_eq!(ask(&server, "GET", "/loglevel", "", "127.0.0.1:1").await.1, "info\n");
    }
}
