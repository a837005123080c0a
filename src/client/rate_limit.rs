//! How many calls per second one cluster is sent.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::time::Instant;
use tower::{Layer, Service};

/// A bucket that fills at a steady rate. Each call takes a token, in advance if need be, and waits until it is due.
#[derive(Debug)]
struct Bucket {
    /// Tokens per second.
    rate: f64,
    burst: f64,
    /// Below zero when tokens were taken in advance.
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn new(qps: u32, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self { rate: f64::from(qps.max(1)), burst, tokens: burst, filled: now }
    }

    /// Takes a token; tells how long to wait for it.
    fn take(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.burst) - 1.0;
        self.filled = now;
        if self.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.tokens / self.rate) }
    }
}

/// Limits the rate of calls. Calls that wait hold no lock, and one that is given up has spent its token.
#[derive(Clone, Debug)]
pub struct RateLimitLayer(Arc<Mutex<Bucket>>);

impl RateLimitLayer {
    /// `qps` calls per second, and `burst` that may exceed it for a moment.
    pub fn new(qps: u32, burst: u32) -> Self {
        Self(Arc::new(Mutex::new(Bucket::new(qps, burst, Instant::now()))))
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit { bucket: self.0.clone(), inner }
    }
}

/// A service whose rate of calls is limited.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    bucket: Arc<Mutex<Bucket>>,
    inner: S,
}

impl<S, Request> Service<Request> for RateLimit<S>
where
    S: Service<Request, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let wait = self.bucket.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        // Futures do nothing before they are polled: the call is made after the wait.
        let call = self.inner.call(request);
        Box::pin(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            call.await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, 3, start);
        let waits: Vec<_> = (0..6).map(|_| bucket.take(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
    }

    #[test]
    fn a_bucket_fills_up_to_its_burst_and_no_further() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, 2, start);
        assert!((0..2).all(|_| bucket.take(start).is_zero()));
        let later = start + Duration::from_mins(10);
        let waits: Vec<_> = (0..3).map(|_| bucket.take(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100]);
    }

    #[test]
    fn limits_of_zero_still_let_calls_through() {
        let start = Instant::now();
        let mut bucket = Bucket::new(0, 0, start);
        assert!(bucket.take(start).is_zero());
        assert_eq!(bucket.take(start), Duration::from_secs(1));
    }
}
