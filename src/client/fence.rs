//! The permit to write: an operator that leads has one for a while, and it ends by itself.

use std::{
    pin::Pin,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{Method, Request};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use kube::client::Body;
use tower::BoxError;

/// Times are kept as milliseconds since this moment.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Leave to write to clusters, until a moment that is moved on while the operator leads. A process that was stopped, or cut
/// off, finds it ended without anybody having to tell it.
#[derive(Debug)]
pub struct Permit(AtomicU64);

/// The permit of an operator that is the only one.
pub static ALWAYS: Permit = Permit(AtomicU64::new(u64::MAX));

impl Permit {
    /// One that has ended.
    pub const fn ended() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Lets it hold until `end`.
    pub fn hold_until(&self, end: Instant) {
        let end = end.saturating_duration_since(*START).as_millis();
        self.0.store(u64::try_from(end).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Ends it.
    pub fn end(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// Whether it holds now.
    pub fn holds(&self) -> bool {
        self.holds_at(Instant::now())
    }

    /// Whether it holds at `time`, unless it is moved on.
    pub fn holds_at(&self, time: Instant) -> bool {
        Duration::from_millis(self.0.load(Ordering::SeqCst)) > time.saturating_duration_since(*START)
    }

    /// Lets reads pass, and writes while it holds. It is looked at twice: now, and when the connection takes the body.
    /// Between the two a connection may have to be made. A request whose body does not come is none to the server.
    pub fn fence(&'static self, request: Request<Body>) -> Result<Request<Fenced>, NotLeading> {
        let reads = [Method::GET, Method::HEAD].contains(request.method());
        let permit = if reads { &ALWAYS } else { self };
        if !permit.holds() {
            return Err(NotLeading);
        }
        Ok(request.map(|body| Fenced { body, permit }))
    }
}

/// What is said of a write that may not be made.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this operator does not lead, or no longer")]
pub struct NotLeading;

/// The body of a request that is sent while a permit holds, and not after that.
pub struct Fenced {
    body: Body,
    permit: &'static Permit,
}

impl HttpBody for Fenced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.permit.holds() {
            return Poll::Ready(Some(Err(NotLeading.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn a_permit_ends_by_itself() {
        let permit = Permit::ended();
        assert!(!permit.holds() && ALWAYS.holds());
        permit.hold_until(Instant::now() + Duration::from_hours(1));
        assert!(permit.holds());
        permit.hold_until(Instant::now());
        assert!(!permit.holds());
        permit.hold_until(Instant::now() + Duration::from_hours(1));
        permit.end();
        assert!(!permit.holds());
    }

    fn request(method: Method) -> Request<Body> {
        Request::builder().method(method).body(Body::from(b"{}".to_vec())).unwrap()
    }

    #[tokio::test]
    async fn a_write_passes_while_the_permit_holds_also_when_its_body_is_taken_and_a_read_always_does() {
        static PERMIT: Permit = Permit::ended();
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(PERMIT.fence(request(method)).is_err());
        }
        let read = PERMIT.fence(request(Method::GET)).ok().unwrap();
        assert_eq!(read.into_body().collect().await.unwrap().to_bytes(), "{}");
        PERMIT.hold_until(Instant::now() + Duration::from_hours(1));
        let [sent, late] = [(); 2].map(|()| PERMIT.fence(request(Method::PATCH)).ok().unwrap().into_body());
        assert_eq!(sent.size_hint().exact(), Some(2));
        assert_eq!(sent.collect().await.unwrap().to_bytes(), "{}");
        PERMIT.end();
        assert!(late.collect().await.unwrap_err().is::<NotLeading>());
    }
}
