//! What is refused of an expression before it is parsed.
//!
//! The parser needs much stack for what is nested, and gets an even number of negations wrong (`!!true` is false to it)
//! after parsing what follows twice, so that a few of them in one another keep it busy for hours.

/// Longest expression; the schema of the data plane has the same limit.
const MAX_LENGTH: usize = 4096;
/// Deepest nesting of brackets.
pub(super) const MAX_BRACKETS: u16 = 24;
/// Most conditional operators, which the parser nests like brackets.
const MAX_CONDITIONALS: usize = 24;

/// Refuses an expression that the parser should not see; the error says why.
pub(super) fn check(source: &str) -> Result<(), String> {
    if source.chars().count() > MAX_LENGTH {
        return Err(format!("it is longer than {MAX_LENGTH} characters"));
    }
    let code = without_texts(source);
    if brackets(&code) > MAX_BRACKETS {
        return Err(format!("its brackets are nested deeper than {MAX_BRACKETS}"));
    }
    if code.matches('?').count() > MAX_CONDITIONALS {
        return Err(format!("it has more than {MAX_CONDITIONALS} conditional operators"));
    }
    if has_double_negation(&code) {
        return Err("a negation of a negation is not supported".to_owned());
    }
    Ok(())
}

fn has_double_negation(code: &str) -> bool {
    let dense: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    // In `1 - -1` the first takes away.
    let negates = |at: usize| at == 0 || dense[..at].ends_with(|c| "([{,?:!<>=+-*/%&|".contains(c));
    dense.contains("!!")
        || dense.match_indices('-').any(|(at, _)| negates(at) && dense[at + 1..].starts_with('-'))
}

fn brackets(code: &str) -> u16 {
    let (_, deepest) = code.chars().fold((0_u16, 0_u16), |(depth, deepest), c| {
        let depth = match c {
            '(' | '[' | '{' => depth.saturating_add(1),
            ')' | ']' | '}' => depth.saturating_sub(1),
            _ => depth,
        };
        (depth, deepest.max(depth))
    });
    deepest
}

/// The expression with a `"` for each text in it, and without comments.
fn without_texts(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, found) = rest.split_at(at);
        code.push_str(before);
        if found.starts_with('/') {
            let end = if found.starts_with("//") { found.find('\n').unwrap_or(found.len()) } else { 1 };
            code.push_str(if end == 1 { "/" } else { "" });
            rest = &found[end..];
        } else {
            // `r` and `b` may stand before a text, in either order.
            let prefix = before.chars().rev().take(2).take_while(char::is_ascii_alphabetic);
            let raw = prefix.into_iter().any(|c| c.eq_ignore_ascii_case(&'r'));
            rest = after_text(found, raw);
            code.push('"');
        }
    }
    code.push_str(rest);
    code
}

/// What follows the text that `source` begins with. In a raw text a backslash is a backslash.
fn after_text(source: &str, raw: bool) -> &str {
    let triple = if source.starts_with('"') { "\"\"\"" } else { "'''" };
    let end = if source.starts_with(triple) { triple } else { &triple[..1] };
    let mut rest = &source[end.len()..];
    while !rest.starts_with(end) {
        let mut chars = rest.chars();
        match chars.next() {
            None => return "",
            Some('\\') if !raw => drop(chars.next()),
            Some(_) => {}
        }
        rest = chars.as_str();
    }
    &rest[end.len()..]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::no_text("a + b / c", "a + b / c")]
    #[case::texts(r#"a == '(' + "it's" + b"#, r#"a == " + " + b"#)]
    #[case::empty("'' + ('')", r#"" + (")"#)]
    #[case::escaped(r"'\'(' + b", r#"" + b"#)]
    #[case::escaped_backslash(r"'\\' + (b", r#"" + (b"#)]
    #[case::raw(r"r'\' + (b", r#"r" + (b"#)]
    #[case::raw_bytes(r"bR'\' + (b", r#"bR" + (b"#)]
    #[case::three_quotes("'''it's ( \n'' ''' + b", r#"" + b"#)]
    #[case::not_closed("a + 'b (", r#"a + ""#)]
    #[case::comment("a // '((\n + b", "a \n + b")]
    #[case::comment_at_the_end("a // b", "a ")]
    #[case::slashes_in_a_text("'https://x' + b", r#"" + b"#)]
    #[case::characters_of_several_bytes(r"'ä\ö日' + ü", r#"" + ü"#)]
    fn texts_and_comments_are_left_out(#[case] source: &str, #[case] code: &str) {
        assert_eq!(without_texts(source), code);
    }

    #[rstest]
    #[case("!!true")]
    #[case("! !true")]
    #[case("a == !!b")]
    #[case("--1 == 1")]
    #[case("1 - - -1 == 1")]
    #[case("1 == - -status.x")]
    fn negations_of_negations_are_refused(#[case] source: &str) {
        assert_eq!(check(source), Err("a negation of a negation is not supported".to_owned()));
    }

    #[rstest]
    #[case("!(!a)")]
    #[case("a != !b")]
    #[case("1 - -1 == 2")]
    #[case("a-1-1 == -b")]
    #[case("a == 'wow!!' || b == '--flag'")]
    fn other_negations_are_not(#[case] source: &str) {
        assert_eq!(check(source), Ok(()));
    }
}
