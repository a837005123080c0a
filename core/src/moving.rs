//! When what has moved to another plane leaves the former one.

use std::time::Duration;

use kantor_api::annotations;
use kube_core::ResourceExt;

use super::duration;

/// How long a move may take before the former plane is cleaned all the same; nothing: as long as it takes. What an object says
/// goes before what its environment says. The error tells what is wrong with it.
pub fn deadline(
    object: &impl ResourceExt,
    environment: &impl ResourceExt,
) -> Result<Option<Duration>, String> {
    let said = [object.annotations(), environment.annotations()];
    let Some(text) = said.into_iter().find_map(|said| said.get(annotations::MOVE_DEADLINE)) else {
        return Ok(None);
    };
    let wrong = || format!("annotation {}: {text:?} is no duration such as 10m", annotations::MOVE_DEADLINE);
    duration::parse(text).filter(|_| !text.is_empty()).map(Some).ok_or_else(wrong)
}

/// Whether the former planes are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Now.
    Now,
    /// When it runs, or after this time.
    Later(Option<Duration>),
}

/// Whether the former planes are left, given whether all `runs` on the new one and for how long it has been `moving`.
pub fn leave(runs: bool, deadline: Option<Duration>, moving: Duration) -> Leave {
    match deadline {
        _ if runs => Leave::Now,
        Some(deadline) if deadline <= moving => Leave::Now,
        deadline => Leave::Later(deadline.map(|deadline| deadline.saturating_sub(moving))),
    }
}

#[cfg(test)]
mod tests {
    use kantor_api::{Deployment, Environment};
    use rstest::rstest;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[rstest]
    #[case::runs(true, None, 0, Leave::Now)]
    #[case::does_not_run(false, None, 1_000_000, Leave::Later(None))]
    #[case::at_once(false, Some(0), 0, Leave::Now)]
    #[case::in_time(false, Some(10), 4, Leave::Later(Some(S * 6)))]
    #[case::over(false, Some(10), 10, Leave::Now)]
    #[case::runs_in_time(true, Some(10), 4, Leave::Now)]
    fn a_plane_is_left_when_it_runs_elsewhere_or_the_deadline_is_over(
        #[case] runs: bool,
        #[case] deadline: Option<u32>,
        #[case] moving: u32,
        #[case] expected: Leave,
    ) {
        assert_eq!(leave(runs, deadline.map(|seconds| S * seconds), S * moving), expected);
    }

    #[rstest]
    #[case(None, None, Ok(None))]
    #[case(Some("10m"), None, Ok(Some(S * 600)))]
    #[case(None, Some("0s"), Ok(Some(Duration::ZERO)))]
    #[case(Some("1h"), Some("soon"), Ok(Some(S * 3600)))]
    #[case(None, Some("soon"), Err("\"soon\""))]
    #[case(Some(""), Some("1h"), Err("\"\""))]
    fn the_deadline_is_the_objects_own_or_its_environments(
        #[case] own: Option<&str>,
        #[case] of_environment: Option<&str>,
        #[case] expected: Result<Option<Duration>, &str>,
    ) {
        let mut deployment = Deployment::new("cart", kantor_api::deployment::DeploymentSpec::default());
        let mut environment = Environment::new("dev", kantor_api::environment::EnvironmentSpec::default());
        let set = |annotations: &mut std::collections::BTreeMap<String, String>, text: Option<&str>| {
            annotations.extend(text.map(|text| (annotations::MOVE_DEADLINE.to_owned(), text.to_owned())));
        };
        set(deployment.annotations_mut(), own);
        set(environment.annotations_mut(), of_environment);
        match (deadline(&deployment, &environment), expected) {
            (Err(said), Err(part)) => assert!(said.contains(part), "{said}"),
            (found, expected) => assert_eq!(found, expected.map_err(ToOwned::to_owned)),
        }
    }
}
