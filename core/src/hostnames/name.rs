//! The one spelling of a host name.

use idna::{
    AsciiDenyList,
    uts46::{DnsLength, Hyphens, Uts46},
};

/// What a wildcard begins with.
pub(super) const WILDCARD: &str = "*.";

/// How long a host name may be.
const LONGEST: usize = 253;

/// How long each part between its dots may be.
const LONGEST_LABEL: usize = 63;

/// The one spelling of a host name that an Endpoint may ask for: see [`spelled`]. It has at least two labels, a wildcard
/// at least two after its star, and it is no IP address.
pub fn normal(host: &str) -> Result<String, String> {
    let name = spelled(host)?;
    let base = name.strip_prefix(WILDCARD).unwrap_or(&name);
    let Some((_, last)) = base.rsplit_once('.') else {
        return Err(if base.len() < name.len() {
            format!("the host name {name:?} would take all names of a top-level domain")
        } else {
            format!("the host name {name:?} needs a domain, as in {name}.example.com")
        });
    };
    if is_number(last) {
        return Err(format!("{name:?} is an IP address or looks like one; a host name is needed"));
    }
    Ok(name)
}

/// The one spelling of a host name, of whoever: in lower case, in ASCII, without a dot at its end.
pub fn spelled(host: &str) -> Result<String, String> {
    let (star, base) = match host.strip_prefix(WILDCARD) {
        Some(base) => (WILDCARD, base),
        None => ("", host),
    };
    if base.contains('*') {
        return Err(format!(
            "in the host name {host:?} a star may only be the whole first label, as in *.example.com"
        ));
    }
    let base = Uts46::new()
        .to_ascii(base.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Ignore)
        .map_err(|_| {
            format!("{host:?} is no host name: it consists of letters, digits and '-' between dots, as in shop.example.com")
        })?;
    // Only now: there are other characters that mean a dot.
    let name = format!("{star}{}", base.strip_suffix('.').unwrap_or(&base));
    if name.split('.').any(str::is_empty) {
        return Err(format!("the host name {host:?} has nothing before, after or between its dots"));
    }
    if let Some(label) = name.split('.').find(|label| label.len() > LONGEST_LABEL) {
        return Err(format!(
            "in the host name {host:?} the part {label:?} is longer than {LONGEST_LABEL} characters"
        ));
    }
    if name.len() > LONGEST {
        return Err(format!("the host name {host:?} is longer than {LONGEST} characters"));
    }
    Ok(name)
}

/// Whether browsers take a host that ends in this label for an IP address.
fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// Whether all names that `inner` stands for are names that `outer` stands for. Both are in their one spelling.
/// `*.example.com` stands for `a.example.com` and `a.b.example.com`, not for `example.com`.
pub(super) fn covers(outer: &str, inner: &str) -> bool {
    outer == inner
        || outer
            .strip_prefix(WILDCARD)
            .is_some_and(|domain| is_below(inner.strip_prefix(WILDCARD).unwrap_or(inner), domain))
}

/// Whether `host` is a sub-domain of `domain`.
pub(super) fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}
