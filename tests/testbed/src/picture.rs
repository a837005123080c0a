//! `kantor-testbed picture`: the recorded words of a demo as an SVG of a terminal.

use std::{fmt::Write as _, fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;

/// Where a demo was recorded, and where its picture goes.
#[derive(Args)]
pub(crate) struct Picture {
    /// What `demo` wrote
    #[arg(long)]
    from: PathBuf,
    /// The SVG
    #[arg(long)]
    to: PathBuf,
}

/// Scenes that fit on a page, by the beginning of their titles.
const SCENES: [&str; 5] = ["Two data planes", "The application", "An update", "Drift", "A request"];
/// Commands that show or change something. Others prepare the scene or wait.
const VERBS: [&str; 4] = ["get", "patch", "delete", "curl"];
/// Longer lines are cut off, longer commands go on in the next line.
const COLUMNS: usize = 134;

const FONT: f32 = 12.0;
const COLUMN: f32 = 7.25;
const ROW: f32 = 17.0;
const MARGIN: f32 = 20.0;
const BAR: f32 = 34.0;

pub(crate) fn run(picture: &Picture) -> Result<ExitCode> {
    let text =
        fs::read_to_string(&picture.from).with_context(|| format!("read {}", picture.from.display()))?;
    let rows = rows(&text);
    ensure!(!rows.is_empty(), "{} holds no scene of a demo", picture.from.display());
    fs::write(&picture.to, svg(&rows)).with_context(|| format!("write {}", picture.to.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// A line of the terminal.
#[derive(Debug, PartialEq, Eq)]
enum Row {
    Title(String),
    Command(String),
    Output(String),
    Empty,
}

/// The lines of the chosen scenes.
fn rows(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let (mut in_scene, mut in_command) = (false, true);
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("== ") {
            in_scene = SCENES.iter().any(|scene| title.starts_with(scene));
            in_command = true;
            if in_scene {
                rows.push(Row::Title(title.to_owned()));
            }
            continue;
        }
        let line = line.strip_prefix("   ").unwrap_or(line);
        if let Some(command) = line.strip_prefix("$ ") {
            in_command = command.split(' ').any(|word| VERBS.contains(&word));
            if in_scene && in_command {
                rows.extend(wrapped(command).into_iter().map(Row::Command));
            }
        } else if in_scene && in_command {
            rows.push(if line.trim().is_empty() { Row::Empty } else { Row::Output(cut(line)) });
        }
    }
    while rows.last() == Some(&Row::Empty) {
        rows.pop();
    }
    rows
}

/// A command in lines that fit, as a shell would read it.
fn wrapped(command: &str) -> Vec<String> {
    let mut lines = vec![String::from("$")];
    for word in command.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line + word.chars().count() + 3 > COLUMNS {
            if let Some(line) = lines.last_mut() {
                line.push_str(" \\");
            }
            lines.push(String::from("   "));
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.into_iter().map(|line| cut(&line)).collect()
}

fn cut(line: &str) -> String {
    if line.chars().count() <= COLUMNS {
        return line.to_owned();
    }
    line.chars().take(COLUMNS - 1).chain(['…']).collect()
}

fn svg(rows: &[Row]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a picture has few lines")]
    let (width, height) =
        (COLUMNS as f32 * COLUMN + 2.0 * MARGIN, rows.len() as f32 * ROW + BAR + 2.0 * MARGIN);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-label="The output of make demo in a terminal">
<style>text {{ font: {FONT}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c9d1d9; white-space: pre }} .title {{ fill: #79c0ff; font-weight: bold }} .command {{ fill: #f0f6fc; font-weight: bold }} .head {{ fill: #8b949e }} .good {{ fill: #56d364 }} .wait {{ fill: #e3b341 }}</style>
<rect width="100%" height="100%" rx="10" fill="#0d1117"/>
<circle cx="20" cy="18" r="6" fill="#ff5f56"/><circle cx="40" cy="18" r="6" fill="#ffbd2e"/><circle cx="60" cy="18" r="6" fill="#27c93f"/>
<text class="head" x="84" y="22">make demo</text>
"##
    );
    let mut y = BAR + MARGIN;
    for row in rows {
        let (class, text) = match row {
            Row::Empty => ("", ""),
            Row::Title(title) => ("title", title.as_str()),
            Row::Command(command) => ("command", command.as_str()),
            Row::Output(line) if is_head(line) => ("head", line.as_str()),
            Row::Output(line) => ("", line.as_str()),
        };
        if !text.is_empty() {
            let content = if matches!(row, Row::Output(_)) { coloured(text) } else { escaped(text) };
            let _ = writeln!(
                svg,
                r#"<text class="{class}" x="{MARGIN:.0}" y="{y:.0}" xml:space="preserve">{content}</text>"#
            );
        }
        y += ROW;
    }
    svg.push_str("</svg>\n");
    svg
}

/// Whether a line is the first of a table.
fn is_head(line: &str) -> bool {
    line.starts_with("NAME")
}

/// The text with the words that say how things are in their colours.
fn coloured(line: &str) -> String {
    let colour = |word: &str| match word {
        "True" | "Running" | "200:" => Some("good"),
        "False" | "deleted" => Some("wait"),
        _ => None,
    };
    let words = line.split(' ').map(|word| match colour(word) {
        Some(class) => format!(r#"<tspan class="{class}">{}</tspan>"#, escaped(word)),
        None => escaped(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: &str = "\n== Real clusters\n   starting\n\n== An update: an image\n   $ kubectl wait --for=x\n   met\n   \
                        $ kubectl get pods <a&b>\n   NAME   READY\n   p      True\n\n== Done in 3 s\n   $ kubectl get y\n";

    #[test]
    fn a_picture_shows_chosen_scenes_without_what_only_waits() {
        let expected = [
            Row::Title("An update: an image".to_owned()),
            Row::Command("$ kubectl get pods <a&b>".to_owned()),
            Row::Output("NAME   READY".to_owned()),
            Row::Output("p      True".to_owned()),
        ];
        assert_eq!(rows(DEMO), expected);
    }

    #[test]
    fn text_is_escaped_and_states_are_coloured() {
        let svg = svg(&rows(DEMO));
        assert!(svg.contains("pods &lt;a&amp;b&gt;</text>"), "{svg}");
        assert!(svg.contains(r#"p      <tspan class="good">True</tspan>"#), "{svg}");
        assert!(svg.contains(r#"<text class="head" x="20""#), "{svg}");
    }

    #[test]
    fn a_long_command_goes_on_in_the_next_line_and_long_output_is_cut_off() {
        let command = format!("kubectl patch x -p {}", "y".repeat(COLUMNS - 10));
        let lines = wrapped(&command);
        assert_eq!(lines[0], "$ kubectl patch x -p \\");
        assert_eq!(lines.len(), 2);
        assert_eq!(cut(&"é".repeat(COLUMNS + 1)).chars().count(), COLUMNS);
    }
}
