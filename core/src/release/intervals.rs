//! When a Release is looked at again by itself.

use std::time::Duration;

use kantor_api::release::ReleaseSpec;

use crate::duration::parse;

const STABLE: Duration = Duration::from_mins(5);
const PROGRESSING: Duration = Duration::from_secs(10);
/// Who writes more means never, and nothing is known to count further.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// When to look again, given whether all is well; never if the spec says so. `random`, from 0 to 1, adds up to a fifth.
pub fn next_look(spec: &ReleaseSpec, settled: bool, random: f64) -> Option<Duration> {
    let (written, default) =
        if settled { (&spec.interval, STABLE) } else { (&spec.progressing_interval, PROGRESSING) };
    let base = written.as_deref().map_or(Some(default), parse).unwrap_or(default).min(LONGEST);
    (!base.is_zero()).then(|| base + base.mul_f64(0.2 * random.clamp(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn an_interval_of_more_than_a_year_is_a_year() {
        for written in ["87600h", "2562047h47m16s", "9999999999999999h"] {
            let spec = ReleaseSpec { interval: Some(written.into()), ..ReleaseSpec::default() };
            let look = next_look(&spec, true, 0.0);
            assert!(look == Some(LONGEST) || parse(written).is_none(), "{written}: {look:?}");
            assert!(next_look(&spec, true, 1.0).is_some_and(|look| look <= LONGEST * 2));
        }
    }
}
