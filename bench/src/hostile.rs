//! Hostile: the largest objects that the API accepts. The operator's own functions are measured, by a program that is built beside
//! it: a cluster would only add its own time.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{
    result::{Case, Figure, Run},
    statistics::percentile,
};
use crate::terminal::say;

/// In milliseconds.
const GOAL: f64 = 10.0;

/// What the program says of one object.
#[derive(Deserialize)]
struct Measured {
    /// The object.
    object: String,
    /// Its size as JSON, in bytes.
    bytes: usize,
    /// Milliseconds of each pass, and of each hold of the lock.
    passes: Vec<f64>,
    holds: Vec<f64>,
}

/// Runs the program beside the operator.
pub(crate) async fn measure(operator: &Path, run: &mut Run) -> Result<()> {
    let program = operator.with_file_name("kantor-bench-hostile");
    let output = tokio::process::Command::new(&program).output().await;
    let output =
        output.with_context(|| format!("run {}; build the package kantor-bench", program.display()))?;
    ensure!(
        output.status.success(),
        "{} failed: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let measured: Vec<Measured> = serde_json::from_slice(&output.stdout).context("read what was measured")?;
    say(&format!("{} objects were measured", measured.len()));
    run.figures.extend(figures(&measured));
    Ok(())
}

/// The figures of each object, and the worst of them with a goal.
fn figures(measured: &[Measured]) -> Vec<Figure> {
    let case = Case::default();
    let median = |samples: &[f64]| percentile(samples, 50).unwrap_or(f64::NAN);
    let figure = |what: &str, value| Figure::new("hostile", &case, what, value, "ms");
    let mut figures = vec![];
    for (what, of) in [
        ("pass", (|one| &one.passes) as fn(&Measured) -> &Vec<f64>),
        ("hold of the index lock", |one| &one.holds),
    ] {
        let worst = measured.iter().max_by(|a, b| median(of(a)).total_cmp(&median(of(b))));
        let longest = figure(&format!("longest {what}"), worst.map_or(f64::NAN, |one| median(of(one))));
        figures.push(
            longest
                .at_most(GOAL)
                .note(worst.map(|one| format!("{}, median", one.object)).unwrap_or_default()),
        );
        for one in measured {
            let of_one =
                figure(&format!("{what}: {} ({} kB)", one.object, one.bytes / 1000), median(of(one)));
            figures.push(of_one.of(of(one)));
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_all_objects_has_a_goal() {
        let one = |object: &str, pass: f64| Measured {
            object: object.to_owned(),
            bytes: 1000,
            passes: vec![pass, pass, 99.0],
            holds: vec![0.1],
        };
        let figures = figures(&[one("small", 1.0), one("large", 12.0)]);
        let goals: Vec<_> = figures.iter().filter(|figure| figure.goal.is_some()).collect();
        assert_eq!(goals.len(), 2);
        assert_eq!((goals[0].what.as_str(), goals[0].note.as_str()), ("longest pass", "large, median"));
        assert_eq!(format!("{:.0}", goals[0].value), "12");
        assert_eq!(figures.len(), 6);
    }
}
