//! The address of an API server.

use std::net::IpAddr;

use kantor_core::net::Host;

use super::{AddressPolicy, Refusal};

/// Longest address.
const MAX_BYTES: usize = 2048;

/// Reads `https://host[:port][/path]` and nothing else. The parts are taken apart here and put together again, so that
/// the connection cannot understand the address otherwise than this check did: parsers of addresses differ in what
/// they drop and forgive (user info, backslashes, fragments, percent signs).
pub(super) fn parse(field: &str, text: &str, policy: AddressPolicy) -> Result<http::Uri, Refusal> {
    let refused = |why: &str| Refusal::new(field, why);
    if text.len() > MAX_BYTES {
        return Err(Refusal::new(field, format!("is longer than {MAX_BYTES} bytes")));
    }
    if text.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(refused("has spaces, control characters or characters outside ASCII"));
    }
    let rest = match text.split_at_checked("https://".len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https://") => rest,
        _ => return Err(refused("must start with https://")),
    };
    if rest.contains('@') {
        return Err(refused("must not have a user name or password"));
    }
    if rest.contains(['?', '#']) {
        return Err(refused("must not have a query or a fragment"));
    }
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let path = path.trim_end_matches('/');
    if !path.split('/').skip(1).all(is_plain_segment) {
        return Err(refused("has a path that is not plain; use letters, digits and - . _ ~ : only"));
    }
    let (host, port) = split_port(authority).ok_or_else(|| {
        refused("has a port that is not between 1 and 65535; an IPv6 address needs brackets")
    })?;
    policy.check_host(host).map_err(|why| Refusal::new(field, format!("host: {why}")))?;
    let host = canonical(host);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("https://{host}{port}{path}").parse().map_err(|_| refused("is not a valid address"))
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`; none if the port is not one.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let after_host = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[after_host..].find(':') {
        None => Some((authority, None)),
        Some(at) => {
            let (host, port) = authority.split_at(after_host + at);
            let port = &port[1..];
            // The parser of numbers also takes `+443` and `0443`.
            let plain = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
            let port = port.parse().ok().filter(|_| plain)?;
            Some((host, Some(port)))
        }
    }
}

/// Empty segments, `.` and `..` are left out because servers and proxies read them differently.
fn is_plain_segment(segment: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    !["", ".", ".."].contains(&segment) && segment.bytes().all(plain)
}

fn canonical(host: &str) -> String {
    match Host::parse(host) {
        Ok(Host::Ip(IpAddr::V6(ip))) => format!("[{ip}]"),
        _ => host.to_ascii_lowercase(),
    }
}
