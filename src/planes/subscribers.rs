//! Telling several listeners, none of which may hold up or miss anything.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

/// Everyone who wants to be told.
pub(super) struct Subscribers<T>(Arc<Mutex<Vec<mpsc::UnboundedSender<T>>>>);

impl<T> Clone for Subscribers<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Subscribers<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Subscribers<T> {
    /// Tells of everything from now on, until the receiver is dropped.
    pub(super) fn subscribe(&self) -> mpsc::UnboundedReceiver<T> {
        let (tell, told) = mpsc::unbounded_channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(tell);
        told
    }

    pub(super) fn tell(&self, news: &T) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|subscriber| subscriber.send(news.clone()).is_ok());
    }
}
