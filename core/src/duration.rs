//! Times as people write them.

use std::time::Duration;

/// A duration as Go writes it: `1h30m`, `1.5s`, `300ms`.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1h30m", Some(Duration::from_mins(90)))]
    #[case("1.5s", Some(Duration::from_millis(1500)))]
    #[case("300ms", Some(Duration::from_millis(300)))]
    #[case("0s", Some(Duration::ZERO))]
    #[case("5", None)]
    #[case("s", None)]
    #[case("1d", None)]
    #[case("99999999999999999999999h", None)]
    fn durations_are_read_as_go_writes_them(#[case] text: &str, #[case] expected: Option<Duration>) {
        assert_eq!(parse(text), expected);
    }
}
