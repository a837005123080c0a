//! The body of an answer that has to go on coming.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

/// The server has said nothing for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server said nothing for {} s", .0.as_secs_f64())]
pub(super) struct Silent(pub(super) Duration);

/// A body that fails when nothing more of it comes for a while.
pub(super) struct Patient<B> {
    body: B,
    /// For how long; with the time that is left. None: for ever.
    patience: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl<B> Patient<B> {
    pub(super) fn new(body: B, patience: Duration) -> Self {
        Self { body, patience: Some((patience, Box::pin(sleep(patience)))) }
    }

    pub(super) fn for_ever(body: B) -> Self {
        Self { body, patience: None }
    }
}

impl<B: Body<Error: Into<BoxError>> + Unpin> Body for Patient<B> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            if let Some((patience, left)) = &mut this.patience {
                left.as_mut().reset(Instant::now() + *patience);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some((patience, left)) = &mut this.patience else { return Poll::Pending };
        ready!(left.as_mut().poll(cx));
        Poll::Ready(Some(Err(Silent(*patience).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
