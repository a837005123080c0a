//! Which addresses may be named. Whoever lets a user write an address asks here, and nobody else judges hosts.
//!
//! - Where the operator connects to, for a DataPlane: [`AddressPolicy`]. Some places answer to it only because of where it
//!   runs: its own pod, its node, and the metadata service of its cloud, which hands out credentials. Private ranges are
//!   open: that is where clusters are. A name is judged twice, as it is written ([`AddressPolicy::check_host`]) and by what
//!   it resolves to at each connection ([`AddressPolicy::permits`]).
//! - Where a gateway connects to, for a tenant: [`outside`]. What is inside the cluster or its network belongs to others,
//!   and a gateway that leads there would lead past their isolation. The gateway resolves names itself, so that a name
//!   can be judged only as it is written: against names whose owner points them inside, the data plane's list of
//!   domains is all that helps.

mod outside;

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use rustls::pki_types::DnsName;

pub use self::outside::{Address, Allowed, outside};

/// The host of an address, read in the one way in which nobody reads it otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An IP address.
    Ip(IpAddr),
    /// A name, in lower case and without a dot at its end.
    Name(String),
}

impl Host {
    /// Reads a host as it is written in an address, an IPv6 address with or without its brackets. The error says what is
    /// wrong and never repeats the host.
    pub fn parse(host: &str) -> Result<Self, &'static str> {
        if let Some(inner) = host.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or("an IPv6 address needs both brackets")?;
            return v6(inner);
        }
        if host.contains(':') {
            return v6(host);
        }
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        if ends_in_a_number(&name) {
            // C resolvers take `127.1`, `0x7f.1`, `017700000001` and `2130706433` for addresses: what is not the
            // usual form is refused rather than guessed at. The same goes for an address with a dot at its end.
            let ip: Ipv4Addr = host.parse().map_err(|_| "write an IPv4 address as four decimal numbers")?;
            return Ok(Self::Ip(ip.into()));
        }
        if DnsName::try_from(name.as_str()).is_err() {
            return Err("is not a valid host name");
        }
        Ok(Self::Name(name))
    }
}

fn v6(text: &str) -> Result<Host, &'static str> {
    if text.contains('%') {
        return Err("zone ids belong to link-local addresses, which are refused");
    }
    text.parse().map(|ip: Ipv6Addr| Host::Ip(ip.into())).map_err(|_| "is not a valid IPv6 address")
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// Which addresses a plane may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Loopback addresses are permitted: for tests and for clusters on the developer's machine.
    pub allow_loopback: bool,
}

/// Names that mean the metadata service of a cloud.
const METADATA_NAMES: [&str; 4] =
    ["metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"];

/// What clouds serve to their own machines outside 169.254.0.0/16: Alibaba's metadata, Azure's wire server.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];

/// The same over IPv6: Google's metadata, Oracle's metadata. Amazon's are a whole prefix.
const METADATA_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
];

impl AddressPolicy {
    /// Whether a connection to this address may be made. For the resolver: it drops every address of a name that is not
    /// permitted.
    pub fn permits(&self, ip: IpAddr) -> bool {
        self.check_ip(ip).is_ok()
    }

    /// Checks the host of an address as it is written: see [`Host::parse`].
    pub fn check_host(&self, host: &str) -> Result<(), &'static str> {
        self.check(&Host::parse(host)?)
    }

    fn check(self, host: &Host) -> Result<(), &'static str> {
        match host {
            Host::Ip(ip) => self.check_ip(*ip),
            Host::Name(name) if name == "localhost" || name.ends_with(".localhost") => self.check_loopback(),
            Host::Name(name) if METADATA_NAMES.contains(&name.as_str()) => Err(METADATA),
            Host::Name(_) => Ok(()),
        }
    }

    fn check_ip(self, ip: IpAddr) -> Result<(), &'static str> {
        match ip {
            IpAddr::V4(ip) => self.check_v4(ip),
            IpAddr::V6(ip) => self.check_v6(ip),
        }
    }

    fn check_v4(self, ip: Ipv4Addr) -> Result<(), &'static str> {
        match ip.octets() {
            // All of 0.0.0.0/8: Linux takes 0.0.0.0 for the machine itself.
            [0, ..] => Err("the unspecified address is not one of a data plane"),
            [127, ..] => self.check_loopback(),
            [169, 254, ..] => Err("link-local addresses, where clouds serve metadata, are refused"),
            // IETF protocol assignments; 192.0.0.192 is Oracle's older metadata service.
            [192, 0, 0, _] => Err(METADATA),
            _ if METADATA_V4.contains(&ip) => Err(METADATA),
            _ if ip.is_multicast() || ip.is_broadcast() => {
                Err("multicast and broadcast addresses are refused")
            }
            _ => Ok(()),
        }
    }

    fn check_v6(self, ip: Ipv6Addr) -> Result<(), &'static str> {
        if ip.is_loopback() {
            return self.check_loopback();
        }
        if ip.is_unspecified() {
            return Err("the unspecified address is not one of a data plane");
        }
        if let Some(inner) = embedded_v4(ip) {
            return self.check_v4(inner);
        }
        match ip.segments() {
            [0xfe80..=0xfebf, ..] => Err("link-local addresses, where clouds serve metadata, are refused"),
            [0xff00..=0xffff, ..] => Err("multicast and broadcast addresses are refused"),
            // Amazon's services for its own machines; the metadata service is fd00:ec2::254.
            [0xfd00, 0xec2, ..] => Err(METADATA),
            _ if METADATA_V6.contains(&ip) => Err(METADATA),
            _ => Ok(()),
        }
    }

    fn check_loopback(self) -> Result<(), &'static str> {
        if self.allow_loopback {
            return Ok(());
        }
        Err(
            "loopback addresses mean the operator's own pod; use an address that other machines reach, or inCluster",
        )
    }
}

const METADATA: &str = "addresses of cloud metadata services are refused";

/// The IPv4 address that is inside an IPv6 one, by any of the ways that a network may translate: mapped, translated,
/// compatible, NAT64, 6to4.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // NAT64 of a network's own (RFC 8215), where its prefix is one of 96 bits.
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        | [0x2002, high, low, ..] => Some(join(high, low)),
        _ => None,
    }
}

/// Whether a resolver may take the name for an IPv4 address: its last part is a decimal, octal or hexadecimal number.
fn ends_in_a_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    match last.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests;
