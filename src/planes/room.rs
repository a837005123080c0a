//! How much of a plane is kept in memory, and what becomes of one that says more.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::watch;

/// How much a plane may say.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one answer to a call, one page of a list, one line of a watch. The largest object that a server takes has 1.5
    /// MiB, of which text that has to be written otherwise in JSON can make six times as much.
    pub answer: usize,
    /// Bytes of all answers to calls that are under way.
    pub under_way: usize,
    /// Objects of one kind that are followed.
    pub objects: usize,
    /// Bytes of all objects that are followed.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { answer: 16 << 20, under_way: 64 << 20, objects: 100_000, bytes: 128 << 20 }
    }
}

/// A plane says more than is kept of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct TooLarge(pub(super) String);

impl TooLarge {
    pub(super) fn answer(limits: &Limits) -> Self {
        Self(format!("an answer is longer than {}", mebibytes(limits.answer)))
    }
}

/// The memory that one connection may take.
pub(super) struct Room {
    pub(super) limits: Limits,
    followed: AtomicUsize,
    under_way: AtomicUsize,
    exceeded: watch::Sender<Option<TooLarge>>,
}

impl Room {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let (followed, under_way) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { limits, followed, under_way, exceeded: watch::Sender::new(None) })
    }

    /// Has the connection ended.
    pub(super) fn exceeded(&self, what: TooLarge) {
        self.exceeded.send_if_modified(|told| {
            let first = told.is_none();
            told.get_or_insert(what);
            first
        });
    }

    /// Waits until the connection has to end.
    pub(super) async fn until_exceeded(&self) -> TooLarge {
        let mut told = self.exceeded.subscribe();
        match told.wait_for(Option::is_some).await.map(|told| told.clone()) {
            Ok(Some(what)) => what,
            // The sender lives as long as `self`.
            _ => std::future::pending().await,
        }
    }

    /// Takes room for bytes of an answer that is under way; they are given back by [`Room::give_back`].
    pub(super) fn take(&self, bytes: usize) -> Result<(), TooLarge> {
        let now = self.under_way.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if now > self.limits.under_way {
            let most = mebibytes(self.limits.under_way);
            return Err(TooLarge(format!("answers that are read at one time are longer than {most}")));
        }
        Ok(())
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.under_way.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The room of the followed objects of one kind. It is given back when this is dropped.
pub(super) struct Share {
    room: Arc<Room>,
    kind: String,
    bytes: usize,
}

impl Share {
    pub(super) fn new(room: Arc<Room>, kind: String) -> Self {
        Self { room, kind, bytes: 0 }
    }

    /// Takes as much room as so many objects of so many bytes in all need.
    pub(super) fn set(&mut self, objects: usize, bytes: usize) -> Result<(), TooLarge> {
        let followed = &self.room.followed;
        let all = if bytes >= self.bytes {
            followed.fetch_add(bytes - self.bytes, Ordering::Relaxed) + (bytes - self.bytes)
        } else {
            followed.fetch_sub(self.bytes - bytes, Ordering::Relaxed) - (self.bytes - bytes)
        };
        self.bytes = bytes;
        let limits = &self.room.limits;
        if objects > limits.objects {
            return Err(TooLarge(format!(
                "it has more than {} objects of kind {}",
                limits.objects, self.kind
            )));
        }
        if all > limits.bytes {
            let most = mebibytes(limits.bytes);
            return Err(TooLarge(format!(
                "its objects that are followed, the last of them of kind {}, are longer than {most} in all",
                self.kind
            )));
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.followed.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn mebibytes(bytes: usize) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Arc<Room> {
        Room::new(Limits { answer: 1 << 20, under_way: 3 << 20, objects: 2, bytes: 4 << 20 })
    }

    #[test]
    fn all_kinds_share_the_bytes_and_each_has_its_objects() {
        let room = room();
        let mut pods = Share::new(room.clone(), "Pod".to_owned());
        let mut services = Share::new(room.clone(), "Service".to_owned());
        pods.set(2, 3 << 20).unwrap();
        services.set(2, 1 << 20).unwrap();
        let TooLarge(why) = services.set(2, (1 << 20) + 1).unwrap_err();
        assert!(why.contains("Service") && why.contains("4 MiB"), "{why}");
        // What was given back can be had again.
        pods.set(1, 1).unwrap();
        services.set(2, 3 << 20).unwrap();
        drop(pods);
        services.set(2, 4 << 20).unwrap();
        let TooLarge(why) = services.set(3, 1).unwrap_err();
        assert!(why.contains("more than 2 objects of kind Service"), "{why}");
        drop(services);
        assert_eq!(room.followed.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn answers_under_way_share_their_bytes() {
        let room = room();
        room.take(2 << 20).unwrap();
        room.take(2 << 20).unwrap_err();
        room.give_back(2 << 20);
        room.give_back(2 << 20);
        room.take(3 << 20).unwrap();
    }

    #[tokio::test]
    async fn the_first_excess_is_told() {
        let room = room();
        room.exceeded(TooLarge("first".to_owned()));
        room.exceeded(TooLarge("second".to_owned()));
        assert_eq!(room.until_exceeded().await, TooLarge("first".to_owned()));
    }
}
