//! Request and reply bodies, which may be large: read in part, passed on in part.

use std::sync::Arc;

use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body as _, Bytes, Frame, Incoming};
use serde::Deserialize;

use super::{
    BODY_LIMIT,
    forward::{Body, BoxError},
    record::RequestBody,
    rules::Rule,
};

/// Reads up to the limit and hands back the copy and a body that still has everything.
pub(super) async fn read_prefix(mut body: Incoming) -> Result<(RequestBody, Body), BoxError> {
    let mut bytes = Vec::new();
    while bytes.len() < BODY_LIMIT {
        match body.frame().await.transpose()?.map(Frame::into_data) {
            Some(Ok(data)) => bytes.extend_from_slice(&data),
            Some(Err(_trailers)) => {}
            None => {
                let bytes = Bytes::from(bytes);
                let kept = RequestBody { bytes: bytes.clone(), truncated: false };
                return Ok((kept, Full::new(bytes).map_err(|never| match never {}).boxed_unsync()));
            }
        }
    }
    let truncated = !body.is_end_stream();
    let read = Bytes::from(bytes);
    let kept = RequestBody { bytes: read.slice(..BODY_LIMIT.min(read.len())), truncated };
    let rest = futures::stream::unfold(body, |mut body| async {
        body.frame().await.map(|frame| (frame.map_err(BoxError::from), body))
    });
    let first = futures::stream::iter([Ok(Frame::data(read))]);
    Ok((kept, StreamBody::new(futures::StreamExt::chain(first, rest)).boxed_unsync()))
}

/// `metadata.name` of a JSON object, without reading the rest into memory.
pub(super) fn name_in(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: Option<String>,
    }
    serde_json::from_slice::<Object>(json).ok()?.metadata.name
}

/// The first half of a body, then an error; of the first piece where the length is not known.
pub(super) fn half_of(body: Incoming) -> Body {
    let left = body.size_hint().exact().map(|length| length / 2);
    let stream = futures::stream::unfold(Some((body, left)), |state| async {
        let Some((mut body, left)) = state else {
            // Lets hyper write out what it has before it hears of the error.
            tokio::task::yield_now().await;
            return Some((Err("body cut by a rule".into()), None));
        };
        let data = body.frame().await?.ok()?.into_data().unwrap_or_default();
        let length = data.len() as u64;
        let left = left.unwrap_or(length / 2);
        if length < left {
            return Some((Ok(Frame::data(data)), Some((body, Some(left - length)))));
        }
        let keep = usize::try_from(left).unwrap_or(data.len()).min(data.len());
        Some((Ok::<_, BoxError>(Frame::data(data.slice(..keep))), None))
    });
    StreamBody::new(stream).boxed_unsync()
}

/// A text, and then a letter without end, until the rule ends or the client goes.
pub(super) fn endless(start: &str, rule: Arc<Rule>) -> Body {
    const PIECE: usize = 64 << 10;
    /// What an answer without end goes on with.
    static FILLING: [u8; PIECE] = [b'x'; PIECE];
    let start = Bytes::copy_from_slice(start.as_bytes());
    let stream = futures::stream::unfold((start, rule), |(piece, rule)| async {
        let next = if rule.sends(piece.len()) {
            // Other connections of the proxy have their turn.
            tokio::task::yield_now().await;
            Ok(Frame::data(piece))
        } else {
            Err(BoxError::from("cut by a rule"))
        };
        Some((next, (Bytes::from_static(&FILLING), rule)))
    });
    StreamBody::new(stream).boxed_unsync()
}
