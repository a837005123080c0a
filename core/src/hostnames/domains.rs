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

/// Whether `host` is in the domain of `entry`. What cannot be read has nothing in it.
pub fn is_in(host: &str, entry: &str) -> bool {
    let host = spelled(host);
    host.is_ok_and(|host| domain(entry).is_ok_and(|domain| domain.contains(&host)))
}

/// Which host names Endpoints may ask for. Entries are a host, or begin with a dot: `.corp.example` is `corp.example` and
/// all below it. What is denied is denied even if it is allowed too; an empty list of allowed domains allows all others.
/// `provided` are hosts and domains that data planes provide for everybody: they, and what is below them, are nobody's.
///
/// A denied entry that cannot be read denies everything, since nobody knows what it should keep out. An allowed one
/// allows nothing.
pub struct Domains<'a> {
    allowed: &'a [String],
    within: Vec<Domain>,
    denied: Vec<(&'a str, Result<Domain, String>)>,
    provided: Vec<(&'a str, Domain)>,
}

impl<'a> Domains<'a> {
    /// Reads the lists.
    pub fn of(allowed: &'a [String], denied: &'a [String], provided: &'a [String]) -> Self {
        let tree = |entry: &'a String| {
            let domain = entry.strip_prefix(WILDCARD).or_else(|| entry.strip_prefix('.')).unwrap_or(entry);
            // What is no host name is not below, above or equal to one.
            Some((entry.as_str(), Domain::Tree(spelled(domain).ok()?)))
        };
        Self {
            allowed,
            within: allowed.iter().filter_map(|entry| domain(entry).ok()).collect(),
            denied: denied.iter().map(|entry| (entry.as_str(), domain(entry))).collect(),
            provided: provided.iter().filter_map(tree).collect(),
        }
    }

    /// Whether an Endpoint may ask for `host`, or why not.
    pub fn allow(&self, host: &str) -> Result<(), String> {
        let host = normal(host)?;
        for (entry, domain) in &self.denied {
            let domain = domain.as_ref().map_err(|why| {
                format!(
                    "the host name {host:?} is refused: the denied domain {entry:?} cannot be read: {why}"
                )
            })?;
            if domain.touches(&host) {
                return Err(format!("the host name {host:?} is not allowed: the domain {entry:?} is denied"));
            }
        }
        if let Some((entry, _)) = self.provided.iter().find(|(_, domain)| domain.touches(&host)) {
            return Err(format!(
                "the host name {host:?} is not allowed: {entry:?} is provided by a data plane for everybody"
            ));
        }
        if !self.allowed.is_empty() && !self.within.iter().any(|domain| domain.contains(&host)) {
            return Err(format!(
                "the host name {host:?} is not allowed: it is in none of the allowed domains {}",
                self.allowed.join(", ")
            ));
        }
        Ok(())
    }
}

/// [`Domains::allow`] for one host.
#[cfg(test)]
pub fn allowed(host: &str, allowed: &[String], denied: &[String], provided: &[String]) -> Result<(), String> {
    Domains::of(allowed, denied, provided).allow(host)
}
