//! The body of an answer, of which no more is read than there is room for.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::HeaderMap;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tower::BoxError;

use crate::planes::room::{Room, TooLarge};

/// The body of an answer. One that is too long ends in an error, and the connection with it.
pub(super) struct Answer {
    body: Incoming,
    room: Option<Arc<Room>>,
    read: usize,
}

impl Answer {
    /// Without a room it is read as it comes.
    pub(super) fn new(body: Incoming, room: Option<Arc<Room>>) -> Self {
        Self { body, room, read: 0 }
    }

    fn measure(&mut self, bytes: usize) -> Result<(), TooLarge> {
        let Some(room) = &self.room else { return Ok(()) };
        self.read += bytes;
        let taken = room.take(bytes);
        let fits = if self.read > room.limits.answer { Err(TooLarge::answer(&room.limits)) } else { taken };
        fits.inspect_err(|excess| room.exceeded(excess.clone()))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            self.measure(frame.data_ref().map_or(0, Bytes::len))?;
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(room) = &self.room {
            room.give_back(self.read);
        }
    }
}

/// How long a server asks to be left alone, in the header of an answer.
pub(in crate::planes) fn retry_after(headers: &HeaderMap) -> Option<std::time::Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(std::time::Duration::from_secs(seconds))
}
