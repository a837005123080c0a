//! Domains: which host names Endpoints may ask for at all.

use super::name::{WILDCARD, covers, is_below, normal, spelled};

/// The names that an entry of a list stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Domain {
    /// A host, or all that a wildcard stands for.
    Host(String),
    /// A domain itself and all below it.
    Tree(String),
}

impl Domain {
    /// Whether all names that `host` stands for are in it.
    fn contains(&self, host: &str) -> bool {
        let base = host.strip_prefix(WILDCARD).unwrap_or(host);
        match self {
            Self::Host(entry) => covers(entry, host),
            Self::Tree(domain) => base == domain || is_below(base, domain),
        }
    }

    /// Whether one of the names that `host` stands for is in it.
    fn touches(&self, host: &str) -> bool {
        self.contains(host)
            || match self {
                Self::Host(name) | Self::Tree(name) => covers(host, name),
            }
    }
}

/// What an entry of a list stands for: a host, or with a dot in front a domain and all below it.
fn domain(entry: &str) -> Result<Domain, String> {
    match entry.strip_prefix('.') {
        Some(domain) if domain.contains('*') => {
            Err(format!("{entry:?} has both a dot in front and a star; the dot alone stands for all below"))
        }
        Some(domain) => spelled(domain).map(Domain::Tree),
        None => spelled(entry).map(Domain::Host),
    }
}

/// Whether `entry` can be an entry of a list of domains, for those who take such lists from people.
pub fn check(entry: &str) -> Result<(), String> {
    domain(entry).map(drop)
}

/// Whether an Endpoint may ask for `host`. Entries are a host, or begin with a dot: `.corp.example` is `corp.example` and
/// all below it. What is denied is denied even if it is allowed too; an empty list of allowed domains allows all others.
/// `provided` are hosts and domains that data planes provide for everybody: they, and what is below them, are nobody's.
///
/// A denied entry that cannot be read denies everything, since nobody knows what it should keep out. An allowed one
/// allows nothing.
pub fn allowed(host: &str, allowed: &[String], denied: &[String], provided: &[String]) -> Result<(), String> {
    let host = normal(host)?;
    for entry in denied {
        let domain = domain(entry).map_err(|why| {
            format!("the host name {host:?} is refused: the denied domain {entry:?} cannot be read: {why}")
        })?;
        if domain.touches(&host) {
            return Err(format!("the host name {host:?} is not allowed: the domain {entry:?} is denied"));
        }
    }
    for entry in provided {
        let domain = entry.strip_prefix(WILDCARD).or_else(|| entry.strip_prefix('.')).unwrap_or(entry);
        // What is no host name is not below, above or equal to one.
        if spelled(domain).is_ok_and(|domain| Domain::Tree(domain).touches(&host)) {
            return Err(format!(
                "the host name {host:?} is not allowed: {entry:?} is provided by a data plane for everybody"
            ));
        }
    }
    let inside = |entry: &String| domain(entry).is_ok_and(|domain| domain.contains(&host));
    if !allowed.is_empty() && !allowed.iter().any(inside) {
        return Err(format!(
            "the host name {host:?} is not allowed: it is in none of the allowed domains {}",
            allowed.join(", ")
        ));
    }
    Ok(())
}
