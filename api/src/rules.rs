//! Rules for texts, checked by the API server. Rules rather than patterns, because a rule has a message: a pattern
//! answers with itself, which few people can read. Patterns stay where a rule would be over the API server's
//! cost limit, that is, deep in lists of lists.

use kube::core::Rule;

use crate::schema::{DURATION_PATTERN, HOSTNAME_PATTERN, PATH_PATTERN};

/// The text matches `pattern`.
fn matches(pattern: &str, message: &str) -> Rule {
    Rule::new(format!(r#"self.matches(r"{pattern}")"#)).message(message)
}

/// A path that is the same for everyone who reads it.
pub(crate) fn path() -> Rule {
    matches(
        PATH_PATTERN,
        "must be a path such as /api/v1: it begins with '/' and has no empty, '.' or '..' segments and no '%'",
    )
}

const HOSTNAME: &str = "must be a host name such as shop.example.com or *.example.com";

/// A host name, or a wildcard.
pub(crate) fn hostname() -> Rule {
    matches(HOSTNAME_PATTERN, HOSTNAME)
}

/// [`hostname`], or nothing.
pub(crate) fn hostname_if_set() -> Rule {
    Rule::new(format!(r#"self == '' || self.matches(r"{HOSTNAME_PATTERN}")"#)).message(HOSTNAME)
}

/// A list of host names, in any script.
pub(crate) fn hostnames() -> Rule {
    let label = r"[\pL\pN]([\pL\pN\pM-]*[\pL\pN\pM])?";
    Rule::new(format!(r#"self.all(name, name.matches(r"^(\*\.)?{label}(\.{label})*\.?$"))"#))
        .message("each must be a host name such as shop.example.com or *.example.com")
}

/// The one way to write a host name, so that two objects for one host cannot differ.
pub(crate) fn normal_hostname() -> Rule {
    Rule::new("self == self.lowerAscii() && !self.endsWith('.')")
        .message("must be in lower case and without a dot at its end")
}

/// A host name without wildcard that goes in front of another, or nothing.
pub(crate) fn dns_prefix() -> Rule {
    matches(
        r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?$",
        "must be the first part of a host name such as dev or dev.eu: lower-case letters, digits, '-' and '.'",
    )
}

/// An address of a server that proves who it is, or nothing.
pub(crate) fn https_url_if_set() -> Rule {
    matches(r"^(https://[^\s/?#]+[^\s]*)?$", "must be a URL that begins with https:// and has no spaces")
}

const HTTP_URL: &str = "must be a URL that begins with http:// or https:// and has no spaces";

/// An address.
pub(crate) fn http_url() -> Rule {
    matches(r"^https?://[^\s/?#]+[^\s]*$", HTTP_URL)
}

/// An address, or nothing.
pub(crate) fn http_url_if_set() -> Rule {
    matches(r"^(https?://[^\s/?#]+[^\s]*)?$", HTTP_URL)
}

/// What paths in a vault begin with, or nothing.
pub(crate) fn vault_prefix_if_set() -> Rule {
    Rule::new("self == '' || (self.endsWith('/') && self.split('/').filter(part, part == '').size() == 1)")
        .message("must be the first part of a path such as secret/data/{organization}/: it ends with '/' and has no empty parts")
}

/// A length of time.
pub(crate) fn duration() -> Rule {
    matches(DURATION_PATTERN, "must be a duration such as 300ms, 10s or 1h30m")
}

/// A Kubernetes quantity that is not negative, or nothing.
pub(crate) fn quantity_if_set() -> Rule {
    // Kubernetes itself takes a unit without a number for nothing at all.
    Rule::new("self == '' || (self.matches('^[0-9.]') && isQuantity(self))")
        .message("must be a quantity such as 500m, 2 or 256Mi")
}

/// Name of an environment variable, as Kubernetes takes it.
pub(crate) fn variable() -> Rule {
    matches("^[ -<>-~]+$", "must be the name of an environment variable: printable ASCII without '='")
}

/// Key of a ConfigMap.
pub(crate) fn configuration_key() -> Rule {
    Rule::new("self.matches('^[-._a-zA-Z0-9]+$') && self != '.' && !self.startsWith('..')")
        .message("must be letters, digits, '-', '_' and '.', and not begin with '..'")
}

/// Path of a mount in a container, as Kubernetes takes it.
pub(crate) fn mount_path() -> Rule {
    matches("^/[^:]*$", "must be an absolute path without ':'")
}

/// An image reference or a tag, or nothing.
pub(crate) fn image() -> Rule {
    matches(r"^[^\s]*$", "must be an image reference or a tag, without spaces")
}

/// A schedule that a `CronJob` takes: five fields with their ranges, or a word.
pub(crate) fn cron() -> Rule {
    let fields = [
        "[0-5]?[0-9]",
        "([01]?[0-9]|2[0-3])",
        "(0?[1-9]|[12][0-9]|3[01])",
        "(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))",
        "(0?[0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))",
    ];
    let fields = fields.map(|value| {
        let range = format!("([*?]|{value}(-{value})?)(/[1-9][0-9]*)?");
        format!("{range}(,{range})*")
    });
    let word = "@(yearly|annually|monthly|weekly|daily|midnight|hourly|every ([0-9.]+(h|m|s|ms))+)";
    matches(
        &format!(r"^({word}|{})$", fields.join(r"\s+")),
        "must be a cron schedule: minute, hour, day of the month, month and day of the week, such as '*/5 * * * *', or a word such as @daily",
    )
}

/// A time zone that a `CronJob` takes, or nothing.
pub(crate) fn time_zone_if_set() -> Rule {
    Rule::new("self.matches('^([A-Za-z][A-Za-z0-9_+/-]*)?$') && self.lowerAscii() != 'local'")
        .message("must be a name of the time zone database, such as Europe/Zurich")
}
