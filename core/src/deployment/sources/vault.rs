//! Paths in the vault: which of them an organization may have read.
//!
//! The vault knows the data plane, not the organization: all values are read with one role. What keeps organizations apart
//! is the path, so that a path that could be read in two ways is refused.

/// What stands for the name of the organization in a prefix.
const ORGANIZATION: &str = "{organization}";

/// What the paths of an organization begin with.
pub(super) fn prefix(template: &str, organization: &str) -> String {
    let prefix = template.replace(ORGANIZATION, organization);
    if prefix.is_empty() || prefix.ends_with('/') { prefix } else { format!("{prefix}/") }
}

/// Whether the value at `path` may be read where paths begin with `prefix`; nobody is kept apart where it is empty.
pub(super) fn check(path: &str, prefix: &str) -> Result<(), &'static str> {
    if prefix.is_empty() {
        return Ok(());
    }
    // What is encoded may be decoded on the way, and what follows a question mark is not part of the path.
    if path.bytes().any(|byte| byte.is_ascii_control() || !byte.is_ascii() || b"%?#\\;".contains(&byte)) {
        return Err("has a character that could be read in two ways: % ? # \\ ; or one outside ASCII");
    }
    if path.split('/').any(|part| matches!(part.trim(), "" | "." | "..")) {
        return Err("has an empty part, or one that is '.' or '..'");
    }
    match path.strip_prefix(prefix) {
        Some(rest) if !rest.is_empty() => Ok(()),
        _ => Err("is outside of it"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::own("secret/data/acme/db", true)]
    #[case::deep("secret/data/acme/a/b-c_d.e/f", true)]
    #[case::with_a_space("secret/data/acme/admin: password", true)]
    #[case::dots_in_a_name("secret/data/acme/..db", true)]
    #[case::other("secret/data/globex/db", false)]
    #[case::the_prefix_alone("secret/data/acme/", false)]
    #[case::the_prefix_without_its_slash("secret/data/acme", false)]
    #[case::a_longer_name("secret/data/acme-2/db", false)]
    #[case::upper_case("secret/data/ACME/db", false)]
    #[case::slash_in_front("/secret/data/acme/db", false)]
    #[case::up("secret/data/acme/../globex/db", false)]
    #[case::up_at_the_end("secret/data/acme/..", false)]
    #[case::here("secret/data/acme/./db", false)]
    #[case::with_spaces("secret/data/acme/.. /globex", false)]
    #[case::two_slashes("secret/data/acme//db", false)]
    #[case::two_slashes_before("secret//data/acme/db", false)]
    #[case::slash_at_the_end("secret/data/acme/db/", false)]
    #[case::encoded_dots("secret/data/acme/%2e%2e/globex", false)]
    #[case::encoded_slash("secret/data/acme/..%2fglobex", false)]
    #[case::encoded_twice("secret/data/acme/%252e%252e/globex", false)]
    #[case::backslash("secret/data/acme/..\\globex", false)]
    #[case::query("secret/data/acme/db?version=1", false)]
    #[case::fragment("secret/data/acme/db#x", false)]
    #[case::parameters("secret/data/acme/..;/globex", false)]
    #[case::other_dots("secret/data/acme/\u{2024}\u{2024}/globex", false)]
    #[case::wide_slash("secret/data/acme/..\u{ff0f}globex", false)]
    #[case::line("secret/data/acme/x\n", false)]
    #[case::nothing("", false)]
    fn a_path_outside_the_prefix_is_refused(#[case] path: &str, #[case] good: bool) {
        assert_eq!(check(path, &prefix("secret/data/{organization}/", "acme")).is_ok(), good);
        assert_eq!(check(path, &prefix("secret/data/{organization}", "acme")).is_ok(), good);
        assert_eq!(check(path, ""), Ok(()), "without a prefix");
    }

    proptest! {
        /// Whatever is accepted stays inside when dots are followed, slashes are joined and escapes are decoded.
        #[test]
        fn what_is_accepted_stays_inside(path in "secret/data/acme[-./%2efF5cx\\\\]{0,12}(globex)?") {
            if check(&path, "secret/data/acme/").is_ok() {
                let decoded = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
                let mut parts = vec![];
                for part in decoded.split('/') {
                    match part {
                        "" | "." => {}
                        ".." => drop(parts.pop()),
                        part => parts.push(part),
                    }
                }
                prop_assert!(parts.len() > 3 && parts[..3] == ["secret", "data", "acme"], "{}", path);
            }
        }
    }
}
