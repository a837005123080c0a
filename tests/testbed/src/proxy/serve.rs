//! Accepting connections, and cutting them.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::{
    Shared,
    forward::{self, Connection},
};

/// Serves until told to stop. All connections are tasks of this future and end with it.
pub(super) async fn run(listener: TcpListener, shared: Arc<Shared>, stop: oneshot::Receiver<Infallible>) {
    let accept = async {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => drop(connections.spawn(serve(stream, shared.clone()))),
                    // Out of file descriptors, most likely: spinning would not bring any back.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    };
    tokio::select! {
        () = accept => {}
        // The sender is never used, only dropped.
        _ = stop => {}
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let cut = Cut::default();
    let mut refusal = shared.rules.refusal();
    let before = *refusal.borrow();
    let wire = Wire { stream, cut: cut.clone() };
    // A failed handshake or a broken connection has no one to be told but the client, who knows.
    let work = async {
        let _ = wire.stream.set_nodelay(true);
        let Ok(tls) = TlsAcceptor::from(shared.facade.config.clone()).accept(wire).await else { return };
        let identity = shared.facade.identify(tls.get_ref().1.peer_certificates());
        let connection = Arc::new(Connection { shared: shared.clone(), identity, cut: cut.clone() });
        let service = service_fn(move |request| forward::answer(connection.clone(), request));
        let mut http = http1::Builder::new();
        http.header_read_timeout(None);
        let _ = http.serve_connection(TokioIo::new(tls), service).await;
    };
    let refused = async {
        let _ = refusal.wait_for(|now| now.active || now.cuts > before.cuts).await;
        cut.cut();
    };
    tokio::select! {
        // First, so that a connection that comes while all are refused is cut before a byte of it is read.
        biased;
        () = refused => {}
        () = Box::pin(work) => {}
    }
}

/// Says of one connection that it ends by a cut, not in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut(Arc<AtomicBool>);

impl Cut {
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The TCP stream of one connection; closing it when it is cut sends a reset.
struct Wire {
    stream: TcpStream,
    cut: Cut,
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.cut.is_cut() {
            // Where the option cannot be set the connection closes in order, which the client also sees as a cut.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
