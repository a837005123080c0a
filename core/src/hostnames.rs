//! Who may serve which host name: names and their spelling, domains that are not for everybody, and claims.
//!
//! What holds at any time is this: a route has a host name only while the claim of that name is the organization's and
//! names the route's Endpoint, as its holder or among those that serve it too. An Endpoint is named before its route gets
//! the host, and no longer named only after the route has lost it. A claim that names anybody is not deleted, and two
//! claims cannot have one name: so no two organizations serve one host.

pub mod book;
pub mod claims;
pub mod domains;
pub mod key;
pub mod name;
pub mod release;
pub mod steps;

#[cfg(test)]
mod tests;
