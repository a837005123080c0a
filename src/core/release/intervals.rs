//! When a Release is looked at again by itself.

use std::time::Duration;

use kantor_api::release::ReleaseSpec;

const STABLE: Duration = Duration::from_mins(5);
const PROGRESSING: Duration = Duration::from_secs(10);

/// When to look again, given whether all is well; never if the spec says so. `random`, from 0 to 1, adds up to a fifth.
pub fn next_look(spec: &ReleaseSpec, settled: bool, random: f64) -> Option<Duration> {
    let (written, default) =
        if settled { (&spec.interval, STABLE) } else { (&spec.progressing_interval, PROGRESSING) };
    let base = written.as_deref().map_or(Some(default), parse).unwrap_or(default);
    (!base.is_zero()).then(|| base + base.mul_f64(0.2 * random.clamp(0.0, 1.0)))
}

/// A duration as Go writes it: `1h30m`, `1.5s`, `300ms`.
fn parse(text: &str) -> Option<Duration> {
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

    #[test]
    fn intervals_have_defaults_and_zero_means_never() {
        let mut spec = ReleaseSpec::default();
        assert_eq!(next_look(&spec, true, 0.0), Some(STABLE));
        assert_eq!(next_look(&spec, false, 0.0), Some(PROGRESSING));
        assert_eq!(next_look(&spec, false, 1.0), Some(PROGRESSING + PROGRESSING / 5));
        spec.interval = Some("0s".into());
        spec.progressing_interval = Some("2s".into());
        assert_eq!(next_look(&spec, true, 0.5), None);
        assert_eq!(next_look(&spec, false, 0.0), Some(Duration::from_secs(2)));
    }
}
