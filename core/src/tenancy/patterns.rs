//! Patterns of a release policy: texts in which `*` stands for any text, also none.

/// What stands for the organization's name in patterns of namespaces.
const ORGANIZATION: &str = "{organization}";

/// Whether `text` is as `pattern` says.
pub(super) fn glob(pattern: &str, text: &str) -> bool {
    follows(pattern.split('*'), text)
}

/// Whether `text` is as `pattern` says, in which `{organization}` stands for `organization`.
pub(super) fn glob_for(pattern: &str, organization: &str, text: &str) -> bool {
    // Taken apart before the name is put in, so that a `*` in the name is no wildcard.
    let literals: Vec<String> =
        pattern.split('*').map(|part| part.replace(ORGANIZATION, organization)).collect();
    follows(literals.iter().map(String::as_str), text)
}

/// Whether `text` starts with the first literal, ends with the last, and has the others between them, in order.
/// Taking each where it is found first leaves the most room for those after it, so nothing is ever tried twice.
fn follows<'a>(mut literals: impl DoubleEndedIterator<Item = &'a str>, text: &str) -> bool {
    let Some(rest) = text.strip_prefix(literals.next().unwrap_or_default()) else { return false };
    // Without a second literal there was no wildcard.
    let Some(last) = literals.next_back() else { return rest.is_empty() };
    let Some(between) = rest.strip_suffix(last) else { return false };
    literals.try_fold(between, |rest, literal| rest.split_once(literal).map(|(_, after)| after)).is_some()
}

/// Whether `pattern` is about the kind: `Kind.group` (`Deployment.apps`), or `Kind` alone in the core group. `*` stands
/// for any text, so that `*.apps` is all kinds of a group; `*` alone is all kinds of all groups.
pub fn kind_matches(pattern: &str, group: &str, kind: &str) -> bool {
    // Kinds have no dots, groups do.
    match pattern.split_once('.') {
        Some((kinds, groups)) => glob(kinds, kind) && glob(groups, group),
        None => is_everything(pattern) || group.is_empty() && glob(pattern, kind),
    }
}

/// Whether `pattern` says the group in full, and in the core group the kind. Whoever writes a wildcard is not thinking of
/// everything that it covers.
pub(super) fn names(pattern: &str, group: &str, kind: &str) -> bool {
    match pattern.split_once('.') {
        Some((_, written)) => !group.is_empty() && written == group,
        None => group.is_empty() && pattern == kind,
    }
}

/// `*`, or several of them, which say the same.
fn is_everything(pattern: &str) -> bool {
    !pattern.is_empty() && pattern.bytes().all(|byte| byte == b'*')
}
