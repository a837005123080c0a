//! docs/performance.md and its plots, written from results alone.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use anyhow::{Context, Result};

use super::{
    plot::{Series, Titles, bars, distribution, lines},
    result::{Case, Figure, Run, Verdict, amount},
    statistics::{growth, number},
};
use crate::terminal::say;

/// Scenarios in the order of the report, with what they are.
const SCENARIOS: [(&str, &str); 11] = [
    (
        "cold",
        "N Deployments, each with a public Endpoint, are created at once over P data planes, until all workloads, Services and routes are on the planes and all statuses say so. The floor is a bare client that writes exactly the same objects to the same kind of fresh servers with the same concurrency, plus the finalizer of what users made and one status per resource, and does nothing else; it makes no request that Kantor does without.",
    ),
    ("noop", "All Deployments and artifacts are touched, and nothing has changed."),
    ("restart", "The operator is killed, and another one starts."),
    (
        "edit",
        "A field of a Deployment is changed: from the moment the change is sent until the data plane's watch shows it.",
    ),
    (
        "drift",
        "Somebody else changes an object on a data plane, or deletes it: from the moment that is sent until the plane's watch shows it as it was.",
    ),
    (
        "isolation",
        "Edits at 20 per second on all planes, half of which hang (the server is stopped), refuse connections, or answer after 5 seconds. What is measured is edits on the others, beside the same edits right before and after, when nothing is left to do and the processors are calm. A round during which the host took more than 3 % of the processors away is made again; all are named below.",
    ),
    (
        "rotate",
        "The token of each plane is replaced in its Secret under 20 edits per second: until the first request with the new one.",
    ),
    (
        "delete",
        "Deployments are deleted, one by one and then all others at once, until they are gone with their Endpoints and everything on the planes.",
    ),
    (
        "release",
        "Objects (ConfigMaps, 100 to a Release) on two planes: until all Releases are ready; then all are touched; then objects are changed on the planes. N is the number of objects.",
    ),
    (
        "planes",
        "DataPlanes on which nothing is deployed, all of them on two real servers. P is the number of planes.",
    ),
    (
        "hostile",
        "The largest objects that the API accepts, in the operator's own code without any cluster: how long one pass over each computes (what it refers to, what is to be there), and how long the index that all share is locked for it. Each figure is the median of 21 passes.",
    ),
];

const METHOD: &str = "\
Real kube-apiserver and etcd, one of each per cluster, on one machine together with the operator and the bench: whoever
computes takes the processor from the others, so times are those of a busy small machine, and ratios say more than seconds.
etcd does not wait for the disk (`--unsafe-no-fsync`), for Kantor as for whoever it is compared with. The clusters have no
controllers and no nodes. In *cold* nobody makes workloads ready; after it, the bench plays the controllers and the gateway,
at once. Requests are counted by the API servers themselves, without those of the bench. The operator runs as it is shipped,
with its default limits; leader election is off.
Percentiles are measured samples, none is interpolated; all samples are in the results (`bench/results`).
`make bench FULL=1` measures again.";

/// Writes the report into the project.
pub(crate) fn write(project: &Path, runs: &[Run]) -> Result<()> {
    let docs = project.join("docs");
    let folder = docs.join("performance");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let remarks = fs::read_to_string(project.join("bench/remarks.md")).unwrap_or_default();
    let merged = merged(runs);
    let plots = plots(&merged);
    for (name, svg) in &plots {
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, svg).with_context(|| format!("write {}", path.display()))?;
    }
    let names: Vec<&str> = plots.keys().map(String::as_str).collect();
    let path = docs.join("performance.md");
    fs::write(&path, text(runs, &merged, &names, &remarks))
        .with_context(|| format!("write {}", path.display()))?;
    say(&format!("the report is {}", path.display()));
    Ok(())
}

/// All results as one; where two have the same figure, the later one counts.
fn merged(runs: &[Run]) -> Run {
    let mut all = Run::default();
    for run in runs {
        let same =
            |a: &Figure, b: &Figure| (&a.scenario, &a.case, &a.what) == (&b.scenario, &b.case, &b.what);
        all.figures.retain(|old| !run.figures.iter().any(|new| same(old, new)));
        all.figures.extend(run.figures.iter().cloned());
        all.requests.retain(|old| {
            !run.requests.iter().any(|new| {
                (&old.scenario, &old.case, &old.cluster) == (&new.scenario, &new.case, &new.cluster)
            })
        });
        all.requests.extend(run.requests.iter().cloned());
        all.remarks.extend(run.remarks.iter().cloned());
    }
    all.figures.extend(growths(&all));
    all.figures.sort_by_key(|figure| place(&figure.scenario, &figure.case));
    all.requests.sort_by_key(|requests| place(&requests.scenario, &requests.case));
    all
}

/// Where a case stands in the report, in whatever order it was measured.
fn place(scenario: &str, case: &Case) -> (Option<usize>, usize, usize) {
    let scenario = SCENARIOS.iter().position(|(name, _)| *name == scenario);
    (scenario, case.deployments, case.planes)
}

/// How time and memory of cold starts grow with the number of Deployments.
fn growths(run: &Run) -> Vec<Figure> {
    const LINEAR: f64 = 1.1;
    let mut found = Vec::new();
    for (what, of) in [("time until all stand", "time"), ("peak memory of the operator", "memory")] {
        for (planes, points) in by_count(run, what) {
            let counts: Vec<usize> = points.iter().map(|(count, _)| *count).collect();
            let points: Vec<(f64, f64)> =
                points.into_iter().map(|(count, value)| (number(count), value)).collect();
            if let (Some(power), Some(most)) = (growth(&points), counts.iter().max()) {
                let case = Case { deployments: *most, planes, variant: String::new() };
                let figure = Figure::new("cold", &case, &format!("growth of {of} with N: power"), power, "");
                found.push(figure.at_most(LINEAR).note(format!("over N = {counts:?}")));
            }
        }
    }
    found
}

type Curve = Vec<(usize, f64)>;

/// A figure of cold starts by planes, as a curve over the number of Deployments.
fn by_count(run: &Run, what: &str) -> BTreeMap<usize, Curve> {
    let mut curves: BTreeMap<usize, Curve> = BTreeMap::new();
    for figure in run.figures.iter().filter(|figure| figure.scenario == "cold" && figure.what == what) {
        curves.entry(figure.case.planes).or_default().push((figure.case.deployments, figure.value));
    }
    for curve in curves.values_mut() {
        curve.sort_by_key(|(count, _)| *count);
    }
    curves
}

fn text(runs: &[Run], all: &Run, plots: &[&str], remarks: &str) -> String {
    let mut out = String::from(
        "# Performance\n\nWritten by `kantor-bench report` from measured results; do not edit.\n\n",
    );
    for run in runs {
        let machine = &run.machine;
        let versions: Vec<String> =
            run.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let _ = writeln!(
            out,
            "- {}, commit {}, {} build; {} cores ({}), {} MB, Linux {}; {}",
            run.date,
            run.commit,
            run.build,
            machine.cores,
            machine.processor,
            machine.memory_mb,
            machine.kernel,
            versions.join(", ")
        );
    }
    let _ = writeln!(out, "\n{METHOD}\n");
    for remark in &all.remarks {
        let _ = writeln!(out, "- {remark}");
    }
    let goals: Vec<&Figure> = all.figures.iter().filter(|figure| figure.goal.is_some()).collect();
    let missed = goals.iter().filter(|figure| figure.verdict() == Verdict::Missed).count();
    let _ = writeln!(out, "\n## Goals\n\n{} of {} are met.\n", goals.len() - missed, goals.len());
    out.push_str(
        "| scenario | case | figure | measured | goal | part of it used | |\n|---|---|---|---|---|---|---|\n",
    );
    for figure in goals {
        let _ = writeln!(out, "| {} {}", figure.scenario, row(figure));
    }
    for (scenario, what) in SCENARIOS {
        let figures: Vec<&Figure> = all.figures.iter().filter(|figure| figure.scenario == scenario).collect();
        if figures.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n## {scenario}\n\n{what}\n");
        for plot in plots.iter().filter(|plot| plot.split('-').next() == Some(scenario)) {
            let _ = writeln!(out, "![{plot}](performance/{plot}.svg)\n");
        }
        out.push_str("| case | figure | measured | goal | part of it used | |\n|---|---|---|---|---|---|\n");
        for figure in &figures {
            let _ = writeln!(out, "{}", row(figure));
        }
        let mut first = "\n";
        for figure in figures.iter().filter(|figure| is_long(&figure.note)) {
            let _ = writeln!(out, "{first}- {}, {}: {}.", figure.case, figure.what, figure.note);
            first = "";
        }
        request_tables(&mut out, all, scenario);
    }
    if !remarks.is_empty() {
        let _ = writeln!(out, "\n{}", remarks.trim());
    }
    out
}

fn request_tables(out: &mut String, all: &Run, scenario: &str) {
    let of = if scenario == "release" { "Release" } else { "Deployment" };
    for table in all.requests.iter().filter(|table| table.scenario == scenario && !table.rows.is_empty()) {
        let _ = writeln!(out, "\nRequests to the {} per {of}, {}:\n", table.cluster, table.case);
        out.push_str("| request | Kantor | floor |\n|---|---|---|\n");
        for row in &table.rows {
            let floor = row.floor.map(amount).unwrap_or_default();
            let _ = writeln!(out, "| {} | {} | {floor} |", row.call, amount(row.kantor));
        }
    }
}

/// Whether a note stands below its table instead of in it.
fn is_long(note: &str) -> bool {
    note.chars().count() > 80
}

fn row(figure: &Figure) -> String {
    let value = format!("{} {}", amount(figure.value), figure.unit);
    let goal = figure.goal.map(|goal| format!("≤ {} {}", amount(goal), figure.unit).trim_end().to_owned());
    let ratio = figure.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
    let verdict = match figure.verdict() {
        Verdict::Missed => "**missed**".to_owned(),
        verdict => verdict.to_string(),
    };
    let note = if figure.note.is_empty() || is_long(&figure.note) {
        String::new()
    } else {
        format!(" ({})", figure.note.replace('|', "/"))
    };
    let goal = goal.unwrap_or_default();
    format!(
        "| {} | {}{note} | {} | {goal} | {ratio} | {verdict} |",
        figure.case,
        figure.what,
        value.trim_end()
    )
}

/// Plots by name; the name begins with the scenario.
fn plots(run: &Run) -> BTreeMap<String, String> {
    let mut plots = BTreeMap::new();
    let cold = [
        ("time until all stand", "cold-time", "seconds until all stand", "s"),
        ("peak memory of the operator", "cold-memory", "peak memory of the operator", "MB"),
    ];
    for (what, name, title, unit) in cold {
        let mut curves = curves(run, what, "Kantor");
        if name == "cold-time" {
            curves.extend(self::curves(run, "time of the floor", "floor"));
        }
        if let Some(svg) = over_counts(title, unit, &curves, None) {
            plots.insert(name.to_owned(), svg);
        }
    }
    if let Some(svg) = writes(run) {
        plots.insert("cold-writes".to_owned(), svg);
    }
    for scenario in ["edit", "drift", "isolation", "rotate", "delete"] {
        let sampled =
            run.figures.iter().filter(|figure| figure.scenario == scenario && figure.samples.len() > 1);
        let series = sampled.map(|figure| Series {
            name: shortened(figure.what.trim_end_matches(", p99")),
            points: distribution(&figure.samples),
        });
        let series: Vec<Series> = series.collect();
        if !series.is_empty() {
            let title = format!("{scenario}: share of samples that took no longer");
            let titles = Titles { plot: &title, x: "ms", y: "%" };
            plots.insert(format!("{scenario}-times"), lines(&titles, &series, None));
        }
    }
    plots
}

fn shortened(name: &str) -> String {
    const LONGEST: usize = 26;
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    format!("{}…", name.chars().take(LONGEST).collect::<String>())
}

/// A figure as lines over the number of Deployments.
fn curves(run: &Run, what: &str, who: &str) -> Vec<Series> {
    let series = by_count(run, what).into_iter().map(|(planes, points)| Series {
        name: format!("{who}, P={planes}"),
        points: points.into_iter().map(|(count, value)| (number(count), value)).collect(),
    });
    series.collect()
}

/// Lines where there are several numbers of Deployments, bars where there is one.
fn over_counts(title: &str, unit: &str, curves: &[Series], goal: Option<f64>) -> Option<String> {
    let titles = Titles { plot: title, x: "Deployments", y: unit };
    if curves.iter().any(|curve| curve.points.len() > 1) {
        return Some(lines(&titles, curves, goal));
    }
    let (count, _) = curves.first()?.points.first()?;
    Some(bars(&titles, &[format!("N={}", amount(*count))], curves, goal))
}

/// Writes per Deployment beside those of the floor, of the largest case.
fn writes(run: &Run) -> Option<String> {
    let tables: Vec<_> = run.requests.iter().filter(|table| table.scenario == "cold").collect();
    let case = tables.iter().map(|table| &table.case).max()?;
    let of = |cluster: &str, floor: bool| -> f64 {
        let table = tables.iter().find(|table| table.cluster == cluster && table.case == *case);
        let rows = table.into_iter().flat_map(|table| &table.rows).filter(|row| is_write(&row.call));
        rows.map(|row| if floor { row.floor.unwrap_or_default() } else { row.kantor }).sum()
    };
    let clusters = ["control plane", "data planes"];
    let series = [("Kantor", false), ("floor", true)].map(|(name, floor)| Series {
        name: name.to_owned(),
        points: clusters.map(|cluster| (0.0, of(cluster, floor))).to_vec(),
    });
    let title = format!("writes per Deployment ({case})");
    let titles = Titles { plot: &title, x: "", y: "writes" };
    Some(bars(&titles, &clusters.map(ToOwned::to_owned), &series, None))
}

fn is_write(call: &str) -> bool {
    ["APPLY ", "PATCH ", "POST ", "PUT ", "DELETE "].iter().any(|verb| call.starts_with(verb))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{RequestRow, RequestTable};

    fn case(deployments: usize) -> Case {
        Case { deployments, planes: 2, variant: String::new() }
    }

    fn run() -> Run {
        let mut run = Run {
            date: "2026-01-01".into(),
            commit: "abc".into(),
            build: "release".into(),
            ..Run::default()
        };
        for (count, seconds) in [(100, 3.0), (1000, 31.0)] {
            run.figures
                .push(Figure::new("cold", &case(count), "time until all stand", seconds, "s").at_most(4.0));
            run.figures.push(Figure::new("cold", &case(count), "time of the floor", seconds / 2.0, "s"));
        }
        run.figures.push(
            Figure::new("edit", &case(100), "one at a time, p99", 40.0, "ms")
                .at_most(500.0)
                .of(&[30.0, 40.0]),
        );
        run.figures.push(
            Figure::new("noop", &case(100), "requests to data planes", 3.0, "")
                .at_most(0.0)
                .note("3 × LIST a|b"),
        );
        let rows = vec![
            RequestRow { call: "APPLY services".into(), kantor: 1.5, floor: Some(1.0) },
            RequestRow { call: "LIST pods".into(), kantor: 5.0, floor: None },
        ];
        run.requests.push(RequestTable {
            scenario: "cold".into(),
            case: case(100),
            cluster: "data planes".into(),
            rows,
        });
        run
    }

    #[test]
    fn the_report_shows_what_was_missed_as_missed() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[run()]).unwrap();
        let text = fs::read_to_string(folder.path().join("docs/performance.md")).unwrap();
        assert!(
            text.contains(
                "| noop | N=100 P=2 | requests to data planes (3 × LIST a/b) | 3 | ≤ 0 |  | **missed** |"
            ),
            "{text}"
        );
        assert!(
            text.contains("| cold | N=100 P=2 | time until all stand | 3 s | ≤ 4 s | 0.75 | met |"),
            "{text}"
        );
        assert!(
            text.contains("3 of 5 are met"),
            "two of cold, of which one is missed, edit, noop, growth: {text}"
        );
        assert!(text.contains("| APPLY services | 1.5 | 1 |"), "{text}");
        for plot in ["cold-time", "cold-writes", "edit-times"] {
            assert!(text.contains(&format!("](performance/{plot}.svg)")), "{text}");
            assert!(folder.path().join(format!("docs/performance/{plot}.svg")).is_file(), "{plot}");
        }
        assert!(!text.contains("## rotate"), "what was not measured is not shown");
    }

    #[test]
    fn a_long_note_stands_below_its_table() {
        let mut run = run();
        let calls = ["1 × LIST services"; 9].join(", ");
        run.figures.retain(|figure| figure.scenario == "noop");
        run.figures[0].note = calls.clone();
        let text = text(&[run.clone()], &merged(&[run]), &[], "");
        assert!(
            text.contains("| N=100 P=2 | requests to data planes | 3 | ≤ 0 |  | **missed** |\n"),
            "{text}"
        );
        assert!(text.contains(&format!("\n\n- N=100 P=2, requests to data planes: {calls}.\n")), "{text}");
    }

    #[test]
    fn later_results_go_before_earlier_ones() {
        let mut later = run();
        later.figures.retain(|figure| figure.scenario == "noop");
        later.figures[0].value = 0.0;
        later.requests.clear();
        let merged = merged(&[run(), later]);
        let noop: Vec<f64> =
            merged.figures.iter().filter(|f| f.scenario == "noop").map(|f| f.value).collect();
        assert_eq!(noop, [0.0]);
        assert_eq!(merged.requests.len(), 1);
    }

    #[test]
    fn scenarios_and_cases_stand_in_their_order_whatever_was_measured_first() {
        let mut run = run();
        run.figures.reverse();
        let merged = merged(&[run]);
        let order: Vec<(&str, usize)> =
            merged.figures.iter().map(|figure| (&*figure.scenario, figure.case.deployments)).collect();
        let cold = [("cold", 100), ("cold", 100), ("cold", 1000), ("cold", 1000), ("cold", 1000)];
        assert_eq!(order, [&cold[..], &[("noop", 100), ("edit", 100)]].concat());
    }

    #[test]
    fn growth_is_shown_where_there_are_several_numbers() {
        let power = growths(&run());
        assert_eq!(power.len(), 1);
        assert!((1.0..1.05).contains(&power[0].value) && power[0].verdict() == Verdict::Met, "{power:?}");
    }

    #[test]
    fn remarks_of_people_come_last() {
        let all = merged(&[run()]);
        let text = text(&[run()], &all, &[], "## What remains\n\nThis.\n");
        assert!(text.ends_with("\n## What remains\n\nThis.\n"), "{text}");
    }
}
