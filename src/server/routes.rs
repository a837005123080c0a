//! The routes: `/livez`, `/readyz`, `/metrics`.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{metrics::Metrics, world::SyncBoard};

/// What the probes look at.
#[derive(Clone)]
pub struct Health {
    /// How far the watches of the control plane are.
    pub sync: SyncBoard,
    /// Set when the operator is asked to end.
    pub stop: CancellationToken,
}

struct Shared {
    health: Health,
    metrics: Metrics,
}

/// Serves probes and metrics on `listener` until `end`.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Metrics,
    end: CancellationToken,
) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(exposition))
        .with_state(Arc::new(Shared { health, metrics }));
    axum::serve(listener, routes).with_graceful_shutdown(async move { end.cancelled().await }).await
}

async fn readyz(State(shared): State<Arc<Shared>>) -> (StatusCode, String) {
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

async fn exposition(State(shared): State<Arc<Shared>>) -> Response {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match shared.metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
