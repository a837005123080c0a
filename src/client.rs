//! One HTTP stack for all clusters: decoding, rate limit, fence, metrics of calls.

pub mod call_metrics;
pub(crate) mod control_plane;
pub mod decode;
pub mod fence;
pub mod rate_limit;
