//! Addresses to which gateways connect for tenants.

use std::net::IpAddr;

use http::Uri;

use super::{AddressPolicy, Host, embedded_v4};
use crate::hostnames::domains;

/// Which addresses outside a tenant may name for a purpose.
#[derive(Clone, Copy, Debug)]
pub struct Allowed<'a> {
    /// Domains, written as for host names, and IP addresses. Without any: every public address and name.
    pub domains: &'a [String],
    /// What the list is called, for people.
    pub list: &'static str,
    /// Whether plain HTTP will do. If not, it does only for a domain that the list has with `http://` in front.
    pub plain: bool,
}

/// An address to which a gateway may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The host.
    pub host: Host,
    /// The port, if it is written.
    pub port: Option<u16>,
    /// Whether it is reached by HTTPS.
    pub tls: bool,
    /// The path.
    pub path: String,
    /// What follows the question mark.
    pub query: Option<String>,
}

impl Address {
    /// The address put together again from its parts, so that nobody reads it otherwise than it was read here.
    pub fn url(&self) -> String {
        let host = match &self.host {
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
            host => host.to_string(),
        };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        let query = self.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}://{host}{port}{}{query}", if self.tls { "https" } else { "http" }, self.path)
    }
}

/// Reads an address that a tenant wrote, if a gateway may connect to it.
pub fn outside(url: &str, allowed: Allowed<'_>) -> Result<Address, String> {
    if url.bytes().any(|byte| !byte.is_ascii_graphic() || b"\\\"<>^`{|}".contains(&byte)) {
        return Err("it has characters that do not belong in a URL".to_owned());
    }
    let uri: Uri = url.parse().map_err(|_| "it is not a URL".to_owned())?;
    let tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err("it has to begin with http:// or https://".to_owned()),
    };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("it must not hold a user name or password".to_owned());
    }
    let host = Host::parse(uri.host().unwrap_or_default()).map_err(|why| format!("its host: {why}"))?;
    let port = uri.port_u16();
    if port == Some(0) {
        return Err("its port has to be between 1 and 65535".to_owned());
    }
    judge(&host, tls, allowed)?;
    Ok(Address { host, port, tls, path: uri.path().to_owned(), query: uri.query().map(ToOwned::to_owned) })
}

fn judge(host: &Host, tls: bool, allowed: Allowed<'_>) -> Result<(), String> {
    let Allowed { domains, list, plain } = allowed;
    let entries = domains.iter().filter_map(|entry| match entry.strip_prefix("http://") {
        _ if plain => Some(entry.as_str()),
        Some(entry) => (!tls).then_some(entry),
        None => tls.then_some(entry),
    });
    let mut entries = entries.peekable();
    if !tls && !plain && entries.peek().is_none() {
        return Err(format!(
            "it has to begin with https://, since what comes by plain HTTP can be replaced on the way; where that cannot \
             happen, put http:// and the host into {list} of the data plane"
        ));
    }
    // Not even a list opens the gateway's own machine, or what its cloud serves to it.
    AddressPolicy::default().check(host).map_err(|_| format!("{host} is not a public address"))?;
    if !domains.is_empty() {
        return if entries.any(|entry| is_in(host, entry)) {
            Ok(())
        } else {
            Err(format!("{host} is in none of the domains of {list} of the data plane"))
        };
    }
    match host {
        Host::Ip(ip) if !is_public(*ip) => Err(format!("{ip} is not a public address")),
        Host::Name(name) if !name.contains('.') || INSIDE.iter().any(|end| is_below(name, end)) => {
            Err(format!("{name} is not a public host"))
        }
        Host::Name(name) => match ANYWHERE.iter().find(|domain| is_below(name, domain)) {
            Some(domain) => Err(format!("names below {domain} stand for any address, also for one inside")),
            None => Ok(()),
        },
        Host::Ip(_) => Ok(()),
    }
}

fn is_in(host: &Host, entry: &str) -> bool {
    match host {
        Host::Ip(_) => Host::parse(entry).is_ok_and(|entry| entry == *host),
        Host::Name(name) => domains::is_in(name, entry),
    }
}

fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Ends of names that only mean something inside a cluster, a machine or a network.
const INSIDE: [&str; 13] = [
    "svc",
    "cluster.local",
    "local",
    "localhost",
    "localdomain",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "arpa",
    "metadata.goog",
];

/// Domains in which everybody finds a name for every address, also for 127.0.0.1 and 169.254.169.254. There are more of them
/// than anybody can list; these are the known ones.
const ANYWHERE: [&str; 16] = [
    "nip.io",
    "sslip.io",
    "xip.io",
    "xip.name",
    "xip.lhjmmc.cn",
    "traefik.me",
    "backname.io",
    "local.gd",
    "localtest.me",
    "localho.st",
    "lvh.me",
    "vcap.me",
    "lacolhost.com",
    "lndo.site",
    "rbndr.us",
    "1u.ms",
];

/// Whether an address is one that everybody outside may know.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            !(ip.is_private()
                || matches!(
                    ip.octets(),
                    // Of carriers; of benchmarks; reserved.
                    [100, 64..128, ..] | [198, 18..20, ..] | [240..=255, ..]
                ))
        }
        IpAddr::V6(ip) => match embedded_v4(ip) {
            Some(inner) => is_public(inner.into()),
            // Global unicast, without Teredo, which hides an IPv4 address.
            None => {
                matches!(ip.segments(), [first, second, ..] if first & 0xe000 == 0x2000 && (first, second) != (0x2001, 0))
            }
        },
    }
}

#[cfg(test)]
mod tests;
