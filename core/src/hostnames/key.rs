//! What a claim is about.

use std::cmp::Ordering;

use kantor_api::hostname_claim::HostnameClaim;
use sha2::{Digest as _, Sha256};

use super::name::{WILDCARD, covers, normal, spelled};

/// What a claim is about: a host, or a part of a host that a cluster provides for everybody.
///
/// Keys are in the order in which they are claimed. What overlaps is next to each other in it, so that of Endpoints that
/// want the same names one gets its first, and they cannot keep each other from all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimKey {
    /// The host in its one spelling.
    pub hostname: String,
    /// The part of it: no slash at its end; nothing stands for all of it.
    pub path_prefix: Option<String>,
    /// The cluster that provides the host.
    pub cluster_uid: Option<String>,
}

impl ClaimKey {
    /// The key of a host that an Endpoint asks for.
    pub fn custom(host: &str) -> Result<Self, String> {
        Ok(Self { hostname: normal(host)?, path_prefix: None, cluster_uid: None })
    }

    /// The key of the part `path` of a host that the cluster provides for everybody.
    pub fn provided(host: &str, path: &str, cluster_uid: &str) -> Result<Self, String> {
        let cluster_uid = Some(cluster_uid.to_owned());
        Ok(Self { hostname: spelled(host)?, path_prefix: normal_path(path), cluster_uid })
    }

    /// What `claim` is about.
    pub fn of(claim: &HostnameClaim) -> Self {
        Self {
            hostname: claim.spec.hostname.clone(),
            path_prefix: claim.spec.path_prefix.as_deref().and_then(normal_path),
            cluster_uid: claim.spec.cluster_uid.clone(),
        }
    }

    /// Name of the claim: the host where that is possible, otherwise something readable with a hash.
    ///
    /// The first has a dot and the second has none, so that no host is named like the hash of another. It is stored:
    /// whatever changes it makes all claims void.
    pub fn name(&self) -> String {
        /// With the hash no longer than a label's value.
        const HEAD: usize = 46;
        let whole = self.path_prefix.is_none() && self.cluster_uid.is_none();
        if whole && self.hostname.contains('.') && !self.hostname.starts_with(WILDCARD) {
            return self.hostname.clone();
        }
        let mut hash = Sha256::new();
        hash.update(self.hostname.as_bytes());
        for part in [&self.path_prefix, &self.cluster_uid] {
            hash.update([0]);
            // What is not there is not the same as what is empty.
            hash.update([u8::from(part.is_some())]);
            hash.update(part.as_deref().unwrap_or_default().as_bytes());
        }
        let digest =
            hash.finalize().iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let words = self.shown().replace('*', "wildcard").to_ascii_lowercase();
        let words: Vec<&str> =
            words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let head: String = words.join("-").chars().take(HEAD).collect();
        match head.trim_end_matches('-') {
            "" => format!("{digest:016x}"),
            head => format!("{head}-{digest:016x}"),
        }
    }

    /// `shop.example.com` or `dev.apis.example.com/shop/cart`, for people.
    pub fn shown(&self) -> String {
        format!("{}{}", self.hostname, self.path_prefix.as_deref().unwrap_or_default())
    }

    /// By cluster, then by domain from the top down, then by path: what is part of another follows it.
    fn places(&self) -> (Option<&str>, impl Iterator<Item = &str>, impl Iterator<Item = &str>) {
        (self.cluster_uid.as_deref(), self.hostname.rsplit('.'), segments(self.path_prefix.as_deref()))
    }
}

impl Ord for ClaimKey {
    fn cmp(&self, other: &Self) -> Ordering {
        if self == other {
            return Ordering::Equal;
        }
        let ((cluster, host, path), (other_cluster, other_host, other_path)) =
            (self.places(), other.places());
        cluster
            .cmp(&other_cluster)
            .then_with(|| host.cmp(other_host))
            .then_with(|| path.cmp(other_path))
            // Only for keys that are not in their one spelling.
            .then_with(|| self.path_prefix.cmp(&other.path_prefix))
    }
}

impl PartialOrd for ClaimKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether there are requests that are meant by both keys.
pub fn overlaps(a: &ClaimKey, b: &ClaimKey) -> bool {
    let begins_with = |a: &ClaimKey, b: &ClaimKey| {
        let mut path = segments(a.path_prefix.as_deref());
        segments(b.path_prefix.as_deref()).all(|segment| path.next() == Some(segment))
    };
    (covers(&a.hostname, &b.hostname) || covers(&b.hostname, &a.hostname))
        && a.cluster_uid.as_ref().zip(b.cluster_uid.as_ref()).is_none_or(|(a, b)| a == b)
        && (begins_with(a, b) || begins_with(b, a))
}

/// The one spelling of a path.
fn normal_path(path: &str) -> Option<String> {
    let path: String = segments(Some(path)).flat_map(|segment| ["/", segment]).collect();
    (!path.is_empty()).then_some(path)
}

fn segments(path: Option<&str>) -> impl Iterator<Item = &str> {
    path.unwrap_or_default().split('/').filter(|segment| !segment.is_empty())
}
