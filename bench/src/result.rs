//! What a run came to: figures, what they should be, and where they were measured.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::machine::Machine;

/// A run of the bench, as its JSON file has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// When it began, UTC.
    pub date: String,
    /// The commit that was measured; with `+` if files were changed since.
    pub commit: String,
    /// Whether the operator is a release build or another.
    pub build: String,
    pub machine: Machine,
    /// What else took part, by name.
    pub versions: BTreeMap<String, String>,
    pub figures: Vec<Figure>,
    pub requests: Vec<RequestTable>,
    /// What has to be known to read the figures, such as a part that was left out.
    pub remarks: Vec<String>,
}

/// Under which conditions a figure was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Case {
    pub deployments: usize,
    pub planes: usize,
    /// What else is particular, or nothing.
    pub variant: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "N={} P={}", self.deployments, self.planes)?;
        if self.variant.is_empty() { Ok(()) } else { write!(f, ", {}", self.variant) }
    }
}

/// One measured number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub scenario: String,
    pub case: Case,
    /// What was measured.
    pub what: String,
    pub value: f64,
    pub unit: String,
    /// What it may be at the most.
    pub goal: Option<f64>,
    /// All single measurements, where the value is made of several.
    pub samples: Vec<f64>,
    /// Why it is as it is, where that is known.
    pub note: String,
}

/// Whether a goal was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// There is no goal.
    Shown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::Shown => "",
        })
    }
}

impl Figure {
    pub(crate) fn new(scenario: &str, case: &Case, what: &str, value: f64, unit: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            case: case.clone(),
            what: what.to_owned(),
            value,
            unit: unit.to_owned(),
            ..Self::default()
        }
    }

    #[must_use]
    pub(crate) fn at_most(self, goal: f64) -> Self {
        Self { goal: Some(goal), ..self }
    }

    #[must_use]
    pub(crate) fn of(self, samples: &[f64]) -> Self {
        Self { samples: samples.to_vec(), ..self }
    }

    #[must_use]
    pub(crate) fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self.goal {
            None => Verdict::Shown,
            // A figure that is no number was not measured.
            Some(goal) if self.value <= goal => Verdict::Met,
            Some(_) => Verdict::Missed,
        }
    }

    /// The part of its goal that was used up; nothing where the goal is nothing.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.goal.filter(|goal| *goal > 0.0).map(|goal| self.value / goal)
    }
}

/// Requests to a kind of cluster, per Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestTable {
    pub scenario: String,
    pub case: Case,
    /// `control plane` or `data planes`.
    pub cluster: String,
    pub rows: Vec<RequestRow>,
}

/// Requests of one verb to one resource, per Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestRow {
    pub call: String,
    pub kantor: f64,
    pub floor: Option<f64>,
}

impl Run {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is no result of this version of the bench", path.display()))
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        fs::write(path, format!("{}\n", serde_json::to_string_pretty(self)?))
            .with_context(|| format!("write {}", path.display()))
    }

    /// The figures that are not what they should be.
    pub(crate) fn missed(&self) -> Vec<&Figure> {
        self.figures.iter().filter(|figure| figure.verdict() == Verdict::Missed).collect()
    }

    /// The figures as a table for the terminal.
    pub(crate) fn table(&self) -> String {
        let mut rows =
            vec![["SCENARIO", "CASE", "FIGURE", "VALUE", "GOAL", "RATIO", ""].map(ToOwned::to_owned)];
        rows.extend(self.figures.iter().map(|figure| {
            [
                figure.scenario.clone(),
                figure.case.to_string(),
                figure.what.clone(),
                format!("{} {}", amount(figure.value), figure.unit).trim_end().to_owned(),
                figure.goal.map(|goal| format!("≤ {}", amount(goal))).unwrap_or_default(),
                figure.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
                figure.verdict().to_string(),
            ]
        }));
        aligned(&rows)
    }
}

/// Columns under each other.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: Vec<usize> = (0..N)
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    let line = |row: &[String; N]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A number with as many places as say something.
pub(crate) fn amount(value: f64) -> String {
    let size = value.abs();
    let text = if !value.is_finite() {
        return "not measured".to_owned();
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        Case { deployments: 100, planes: 2, variant: String::new() }
    }

    fn run() -> Run {
        let figures = vec![
            Figure::new("cold", &case(), "time", 3.25, "s").at_most(4.0).of(&[3.25, 3.5]).note("why"),
            Figure::new("noop", &case(), "requests to data planes", 2.0, "").at_most(0.0),
            Figure::new("cold", &case(), "CPU", 1.5, "s"),
        ];
        let rows = vec![RequestRow { call: "APPLY services".into(), kantor: 1.0, floor: Some(1.0) }];
        let requests =
            vec![RequestTable { scenario: "cold".into(), case: case(), cluster: "data planes".into(), rows }];
        Run { figures, requests, date: "2026-01-01".into(), ..Run::default() }
    }

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results/one.json");
        run().write(&path).unwrap();
        assert_eq!(Run::read(&path).unwrap(), run());
    }

    #[test]
    fn a_goal_is_missed_as_soon_as_it_is_exceeded() {
        let figure = |value, goal| Figure { value, goal, ..Figure::default() };
        for (value, goal, verdict, ratio) in [
            (4.0, Some(4.0), Verdict::Met, Some(1.0)),
            (4.1, Some(4.0), Verdict::Missed, Some(1.025)),
            (0.0, Some(0.0), Verdict::Met, None),
            (1.0, Some(0.0), Verdict::Missed, None),
            (f64::NAN, Some(1.0), Verdict::Missed, None),
            (1.0, None, Verdict::Shown, None),
        ] {
            let figure = figure(value, goal);
            assert_eq!(figure.verdict(), verdict, "{figure:?}");
            if value.is_finite() {
                assert_eq!(figure.ratio().is_some(), ratio.is_some(), "{figure:?}");
                let near = figure.ratio().zip(ratio).is_none_or(|(a, b)| (a - b).abs() < 1e-9);
                assert!(near, "{figure:?}");
            }
        }
    }

    #[test]
    fn what_missed_its_goal_is_told() {
        let run = run();
        let missed: Vec<&str> = run.missed().iter().map(|figure| figure.what.as_str()).collect();
        assert_eq!(missed, ["requests to data planes"]);
    }

    #[test]
    fn the_table_shows_each_figure_with_its_goal_and_what_was_missed() {
        let table = run().table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert!(
            lines[1].contains("3.25 s") && lines[1].contains("≤ 4") && lines[1].ends_with("met"),
            "{table}"
        );
        assert!(lines[2].ends_with("MISSED"), "{table}");
        assert!(lines[3].ends_with("1.5 s"), "{table}");
        let column = |line: &str| line.chars().position(|c| c == 'N').unwrap();
        assert_eq!(column(lines[1]), column(lines[2]), "{table}");
    }

    #[test]
    fn numbers_have_as_many_places_as_say_something() {
        for (value, text) in [
            (0.0, "0"),
            (0.123, "0.12"),
            (3.0, "3"),
            (12.34, "12.3"),
            (1234.5, "1234"),
            (f64::NAN, "not measured"),
        ] {
            assert_eq!(amount(value), text);
        }
    }
}
