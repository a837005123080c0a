//! Small HTTP servers in the network of the data.

use std::{convert::Infallible, future::Future, net::SocketAddr};

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// What a server is asked: the body has been read.
pub(super) type Question = Request<Bytes>;
/// What it answers.
pub(super) type Reply = Response<Full<Bytes>>;

/// Listens at an address. Call it in the network that has it.
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("listen at {address}"))
}

/// Answers until it is dropped, which also ends the open connections.
pub(super) async fn serve<F>(
    listener: TcpListener,
    answer: impl Fn(Question) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Reply> + Send + 'static,
{
    accept(listener, move |stream| converse(stream, answer.clone())).await;
}

/// Hands each connection to `handle`, until it is dropped, which also ends the open connections.
pub(super) async fn accept<F>(listener: TcpListener, handle: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // A client that is gone before it is accepted is no reason to end.
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(handle(stream));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers all requests of a connection.
pub(super) async fn converse<F>(stream: TcpStream, answer: impl Fn(Question) -> F + Clone)
where
    F: Future<Output = Reply>,
{
    // Without it, answers wait for the acknowledgement of their first half.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let answer = answer.clone();
        async move { Ok::<_, Infallible>(read_and_answer(request, answer).await) }
    });
    // Clients come and go as they like.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn read_and_answer<F: Future<Output = Reply>>(
    request: Request<hyper::body::Incoming>,
    answer: impl Fn(Question) -> F,
) -> Reply {
    let (parts, body) = request.into_parts();
    match body.collect().await {
        Ok(body) => answer(Request::from_parts(parts, body.to_bytes())).await,
        Err(error) => reply(400, "text/plain", error.to_string()),
    }
}

/// An answer with this status and body.
pub(super) fn reply(status: u16, content_type: &str, body: impl Into<Bytes>) -> Reply {
    let reply = Response::builder().status(status).header("content-type", content_type);
    reply.body(Full::new(body.into())).unwrap_or_default()
}
