//! Name resolution that leaves out the addresses a plane may not have.

use std::{
    net::SocketAddr,
    task::{Context, Poll},
    vec,
};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::{BoxError, Service};

use crate::planes::AddressPolicy;

/// Why a name leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::planes) enum ResolveError {
    #[error("the server's name is not known")]
    Unknown,
    #[error("the server's name has no address that a plane may have")]
    Refused,
}

/// The system's resolver behind the address policy, asked at each connection: what a name means may change.
#[derive(Clone)]
pub(super) struct Resolver {
    system: GaiResolver,
    /// None: the operator's own cluster may be anywhere.
    addresses: Option<AddressPolicy>,
}

impl Resolver {
    pub(super) fn new(addresses: Option<AddressPolicy>) -> Self {
        Self { system: GaiResolver::new(), addresses }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.system.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = self.system.call(name);
        let addresses = self.addresses;
        Box::pin(async move {
            let found = found.await.map_err(|_| ResolveError::Unknown)?;
            Ok(permitted(found, addresses)?.into_iter())
        })
    }
}

fn permitted(
    found: impl Iterator<Item = SocketAddr>,
    addresses: Option<AddressPolicy>,
) -> Result<Vec<SocketAddr>, ResolveError> {
    let permitted: Vec<_> =
        found.filter(|address| addresses.is_none_or(|policy| policy.permits(address.ip()))).collect();
    if permitted.is_empty() { Err(ResolveError::Refused) } else { Ok(permitted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_the_addresses_that_a_plane_may_have() {
        let addresses =
            |texts: &[&str]| texts.iter().map(|t| t.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let found = addresses(&["169.254.169.254:443", "10.0.0.1:443", "127.0.0.1:443", "[::1]:443"]);
        let strict = Some(AddressPolicy { allow_loopback: false });
        assert_eq!(permitted(found.iter().copied(), strict).unwrap(), addresses(&["10.0.0.1:443"]));
        let rebound = addresses(&["127.0.0.1:443", "169.254.169.254:443"]);
        assert!(permitted(rebound.iter().copied(), strict).is_err());
        assert_eq!(permitted(rebound.iter().copied(), None).unwrap(), rebound);
    }
}
