//! Paths: what may stand in one, and how the public path of a request becomes the application's.

/// A path without a slash at its end: the root is the empty text.
pub(super) fn trimmed(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

/// A path that is not empty.
pub(super) fn or_root(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// How many segments a path may have.
const MOST_SEGMENTS: usize = 64;

/// Checks that everybody who reads a path reads the same: what a gateway, or an application behind it, might normalise
/// could otherwise lead past the rules that guard it. With `parameters`, a segment may be one, such as `{id}`.
pub(super) fn check(path: &str, parameters: bool) -> Result<(), &'static str> {
    if path.is_empty() || path == "/" {
        return Ok(());
    }
    let Some(segments) = path.strip_prefix('/') else { return Err("it has to begin with '/'") };
    let segments = segments.strip_suffix('/').unwrap_or(segments);
    if segments.split('/').count() > MOST_SEGMENTS {
        return Err("it has more than 64 segments");
    }
    for segment in segments.split('/') {
        match segment {
            "" => return Err("it has an empty segment"),
            "." | ".." => return Err("it has a segment '.' or '..'"),
            _ if parameters && is_parameter(segment) => {}
            _ if segment.contains('%') => return Err("it has a percent sign: write it without encoding"),
            _ if segment.bytes().all(is_plain) => {}
            _ => return Err("it has a character that is not allowed in a path"),
        }
    }
    Ok(())
}

pub(super) fn is_parameter(segment: &str) -> bool {
    segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
    })
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~!$&'()*+,;=:@-".contains(&byte)
}

/// What matches exactly the requests of one operation, and what the application sees of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// Matches the whole path.
    pub pattern: String,
    /// The path that the application sees.
    pub substitution: String,
}

/// The requests of the operation `target` below `base`, published below `prefix`. Captured is exactly what follows the
/// known prefix, whatever it looks like.
pub(super) fn operation(prefix: &str, base: &str, target: &str) -> Rewrite {
    let own = format!("{}{target}", trimmed(base));
    if own.is_empty() || own == "/" {
        // There would be nothing to capture, and a path is never empty.
        return Rewrite { pattern: format!("^{}/?$", quoted(prefix)), substitution: "/".to_owned() };
    }
    Rewrite {
        pattern: format!("^{}({})$", quoted(prefix), with_parameters(&own)),
        substitution: r"\1".to_owned(),
    }
}

/// How one operation relates to another one of the same method.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// No request is of both.
    Apart,
    /// Each request of the first is one of the other.
    Within,
    /// Each request of the other is one of the first.
    Around,
    /// Some requests are of both, and some of only one.
    Across,
}

/// How `target` relates to `other`. Pairs are not compared one by one: this is what [`super::overlap`] is tested by.
#[cfg(test)]
pub(super) fn relation(target: &str, other: &str) -> Relation {
    let segments = |path: &str| -> Vec<String> { trimmed(path).split('/').map(ToOwned::to_owned).collect() };
    let (own, others) = (segments(target), segments(other));
    if own.len() != others.len() {
        return Relation::Apart;
    }
    let (mut narrower, mut wider) = (false, false);
    for (one, two) in own.iter().zip(&others) {
        match (is_parameter(one), is_parameter(two)) {
            (false, false) if !one.eq_ignore_ascii_case(two) => return Relation::Apart,
            (false, true) => narrower = true,
            (true, false) => wider = true,
            _ => {}
        }
    }
    match (narrower, wider) {
        (true, true) => Relation::Across,
        (false, true) => Relation::Around,
        _ => Relation::Within,
    }
}

impl Rewrite {
    /// The same operation beside others, with other rules, that match its requests as well: gateways prefer the longer
    /// pattern, so that this one is made longer than `others`. What an application may take for the same request (upper
    /// case, what follows a semicolon, a slash at the end) is the same here, so that it cannot pass for one of theirs.
    pub fn before(mut self, prefix: &str, others: usize) -> Self {
        let own = self.pattern.trim_start_matches('^').trim_end_matches('$');
        let prefix = quoted(prefix);
        let own = own.strip_prefix(prefix.as_str()).unwrap_or(own);
        let mut pattern = format!("^{prefix}(?i:{own})(?:;[^/]*)?/?");
        while pattern.len() < others {
            pattern.push_str("(?:)");
        }
        pattern.push('$');
        self.pattern = pattern;
        self
    }
}

/// Escapes exactly what means something in a pattern: routes that are there already are compared with the result.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    push_quoted(&mut quoted, text);
    quoted
}

fn push_quoted(pattern: &mut String, text: &str) {
    // Most texts need no escapes: they are copied at once.
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_')) {
        return pattern.push_str(text);
    }
    for c in text.chars() {
        if matches!(c, '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
}

/// [`quoted`], with parameters that match one segment.
fn with_parameters(path: &str) -> String {
    let mut pattern = String::with_capacity(2 * path.len());
    for (i, segment) in path.split('/').enumerate() {
        if i > 0 {
            pattern.push('/');
        }
        if is_parameter(segment) {
            pattern.push_str("[^/]+");
        } else {
            push_quoted(&mut pattern, segment);
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::worked_example("/shop/books", "/v1", "/items/{id}", "^/shop/books(/v1/items/[^/]+)$")]
    #[case::parameters(
        "/default-project/reading-list-service",
        "/api/v1/reading-list",
        "/books/{id}",
        "^/default-project/reading-list-service(/api/v1/reading-list/books/[^/]+)$"
    )]
    #[case::no_target("/app", "/health", "", "^/app(/health)$")]
    #[case::base_is_root("/service/api", "/", "/{id1}", "^/service/api(/[^/]+)$")]
    #[case::dots("/service-2.0", "/api/v1.0/items", "/{id}", r"^/service-2\.0(/api/v1\.0/items/[^/]+)$")]
    #[case::prefix_that_repeats("/proj/reading-list", "/", "/reading", "^/proj/reading-list(/reading)$")]
    #[case::base_with_slash("/p/c", "/api/", "/books", "^/p/c(/api/books)$")]
    #[case::target_with_slash("/p/c", "/api", "/books/", "^/p/c(/api/books/)$")]
    #[case::own_host("", "/v1", "/items", "^(/v1/items)$")]
    #[case::two_parameters("/p/c", "", "/a/{x}/b/{y.z}", "^/p/c(/a/[^/]+/b/[^/]+)$")]
    #[case::braces_inside_a_segment("/p/c", "", "/a(b)", r"^/p/c(/a\(b\))$")]
    fn an_operation_captures_what_follows_the_public_prefix(
        #[case] prefix: &str,
        #[case] base: &str,
        #[case] target: &str,
        #[case] pattern: &str,
    ) {
        let rewrite = operation(prefix, base, target);
        assert_eq!((rewrite.pattern.as_str(), rewrite.substitution.as_str()), (pattern, r"\1"));
    }

    #[rstest]
    #[case("/p/c", "", "", "^/p/c/?$")]
    #[case("/p/c", "/", "/", "^/p/c/?$")]
    #[case("", "", "", "^/?$")]
    fn an_operation_on_the_root_reaches_the_root(
        #[case] prefix: &str,
        #[case] base: &str,
        #[case] target: &str,
        #[case] pattern: &str,
    ) {
        let expected = Rewrite { pattern: pattern.to_owned(), substitution: "/".to_owned() };
        assert_eq!(operation(prefix, base, target), expected);
    }

    #[rstest]
    #[case("", true)]
    #[case("/", true)]
    #[case("/v1", true)]
    #[case("/v1/", true)]
    #[case("/.well-known/x", true)]
    #[case("v1", false)]
    #[case("//v1", false)]
    #[case("/v1//x", false)]
    #[case("/v1//", false)]
    #[case("/../../other/victim", false)]
    #[case("/v1/..", false)]
    #[case("/./v1", false)]
    #[case("/%2e%2e/v1", false)]
    #[case("/v1%2fx", false)]
    #[case("/v1?x=1", false)]
    #[case("/v1#x", false)]
    #[case(r"/v1\x", false)]
    #[case("/v1 x", false)]
    #[case("/bücher", false)]
    #[case("/{id}", false)]
    #[case(&"/x".repeat(64), true)]
    #[case(&"/x".repeat(65), false)]
    fn a_path_that_could_be_read_in_two_ways_is_refused(#[case] path: &str, #[case] good: bool) {
        assert_eq!(check(path, false).is_ok(), good);
    }

    #[rstest]
    #[case("/{id}", true)]
    #[case("/a/{b}/c", true)]
    #[case("/{}", false)]
    #[case("/x{id}", false)]
    #[case("/{a/b}", false)]
    #[case("/{a}{b}", false)]
    fn a_parameter_is_a_whole_segment(#[case] path: &str, #[case] good: bool) {
        assert_eq!(check(path, true).is_ok(), good);
    }

    #[rstest]
    #[case("/users/{id}", "/users/me", Relation::Around)]
    #[case("/users/me", "/users/{id}", Relation::Within)]
    #[case("/users/ME", "/users/me", Relation::Within)]
    #[case("/users/{a}", "/users/{b}", Relation::Within)]
    #[case("/users/me", "/users/you", Relation::Apart)]
    #[case("/users/{id}", "/users/{id}/keys", Relation::Apart)]
    #[case("/{a}/keys", "/users/{b}", Relation::Across)]
    fn operations_may_match_the_same_requests(
        #[case] target: &str,
        #[case] other: &str,
        #[case] expected: Relation,
    ) {
        assert_eq!(relation(target, other), expected);
    }

    #[test]
    fn the_pattern_of_an_operation_within_another_is_longer_and_knows_other_spellings() {
        let other = operation("/p/c", "", "/users/{id}");
        let own = operation("/p/c", "", "/users/me").before("/p/c", other.pattern.len());
        assert!(own.pattern.len() > other.pattern.len());
        assert!(own.pattern.starts_with("^/p/c(?i:(/users/me))(?:;[^/]*)?/?"), "{}", own.pattern);
        assert!(own.pattern.ends_with('$') && own.substitution == r"\1");
        let long = operation("/p/c", "", "/users/me").before("/p/c", 200);
        assert!(long.pattern.len() > 200);
    }

    proptest::proptest! {
        /// Whatever is published, its pattern matches its own path below the prefix and captures what follows it.
        #[test]
        fn the_pattern_of_a_plain_operation_is_its_own_path_escaped(
            prefix in "/[a-z.-]{1,8}/[a-z.-]{1,8}", base in "(/[a-z.+()$-]{1,6}){0,2}", target in "(/[a-z.*~]{1,6}){1,3}",
        ) {
            let rewrite = operation(&prefix, &base, &target);
            let unescaped = rewrite.pattern.replace('\\', "");
            proptest::prop_assert_eq!(unescaped, format!("^{prefix}({base}{target})$"));
        }
    }
}
