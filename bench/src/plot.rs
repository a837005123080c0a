//! Plots as plain SVG: lines and bars, an axis each way, a legend.

use std::fmt::Write;

use super::{result::amount, statistics::number};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 52.0;
const COLOURS: [&str; 8] =
    ["#0b6e99", "#d9730d", "#4d6461", "#ad1a72", "#448361", "#9065b0", "#937264", "#dfab01"];

/// Something that is plotted.
pub(crate) struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Names of a plot and its axes.
pub(crate) struct Titles<'a> {
    pub plot: &'a str,
    pub x: &'a str,
    pub y: &'a str,
}

/// A line per series, with a dashed one at `goal`.
pub(crate) fn lines(titles: &Titles<'_>, series: &[Series], goal: Option<f64>) -> String {
    let points = || series.iter().flat_map(|series| &series.points);
    let x_end = ceiling(points().map(|point| point.0).fold(0.0, f64::max));
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    // A goal that is far above everything would flatten it.
    let goal = goal.filter(|goal| *goal < 4.0 * highest);
    let mut plot = Plot::new(titles, ceiling(highest.max(goal.unwrap_or_default())));
    plot.ticks_below(x_end);
    for (number, series) in series.iter().enumerate() {
        let place = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", plot.x(x / x_end), plot.y(*y));
        let path: Vec<String> = series.points.iter().map(place).collect();
        let colour = COLOURS[number % COLOURS.len()];
        plot.add(&format!(
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
            path.join(" ")
        ));
        if series.points.len() <= 12 {
            for (x, y) in &series.points {
                let (x, y) = (plot.x(x / x_end), plot.y(*y));
                plot.add(&format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#));
            }
        }
        plot.legend(number, &series.name);
    }
    plot.goal(goal);
    plot.finish()
}

/// A group of bars per category, a bar per series in each; the points of a series are the heights of its bars.
pub(crate) fn bars(
    titles: &Titles<'_>,
    categories: &[String],
    series: &[Series],
    goal: Option<f64>,
) -> String {
    let heights = series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let mut plot = Plot::new(titles, ceiling(heights.fold(goal.unwrap_or_default(), f64::max)));
    let group = 1.0 / number(categories.len().max(1));
    let bar = group * 0.8 / number(series.len().max(1));
    for (place, category) in categories.iter().enumerate() {
        let middle = plot.x(group * (number(place) + 0.5));
        plot.text(middle, HEIGHT - BOTTOM + 16.0, "middle", category);
        for (index, series) in series.iter().enumerate() {
            let Some((_, value)) = series.points.get(place) else { continue };
            let left = plot.x(group * (number(place) + 0.1) + bar * number(index));
            let (top, width) = (plot.y(*value), (WIDTH - LEFT - RIGHT) * bar);
            let (height, colour) = (HEIGHT - BOTTOM - top, COLOURS[index % COLOURS.len()]);
            plot.add(&format!(
                r#"<rect x="{left:.1}" y="{top:.1}" width="{:.1}" height="{height:.1}" fill="{colour}"/>"#,
                width * 0.92
            ));
            plot.text(left + width * 0.46, top - 4.0, "middle", &amount(*value));
        }
    }
    for (index, series) in series.iter().enumerate() {
        plot.legend(index, &series.name);
    }
    plot.goal(goal);
    plot.finish()
}

/// What share of the samples is not above each of them, in percent.
pub(crate) fn distribution(samples: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = number(sorted.len());
    sorted.into_iter().enumerate().map(|(rank, value)| (value, number(rank + 1) * 100.0 / count)).collect()
}

/// The next number that is 1, 2 or 5 and zeros, or 100 for percents.
fn ceiling(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .iter()
        .map(|step| step * power)
        .find(|end| *end >= value * 0.999)
        .unwrap_or(value)
}

struct Plot {
    text: String,
    y_end: f64,
}

impl Plot {
    fn new(titles: &Titles<'_>, y_end: f64) -> Self {
        let mut plot = Self { text: String::new(), y_end };
        let _ = writeln!(
            plot.text,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" role="img">"#
        );
        plot.add(&format!("<title>{}</title>", escaped(titles.plot)));
        plot.add(r##"<rect width="100%" height="100%" fill="#ffffff"/>"##);
        plot.add(&format!(r#"<text x="{LEFT}" y="22" font-size="15">{}</text>"#, escaped(titles.plot)));
        for step in 0..=4 {
            let value = y_end * f64::from(step) / 4.0;
            let y = plot.y(value);
            plot.add(&format!(
                r##"<line x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="#dddddd"/>"##,
                WIDTH - RIGHT
            ));
            plot.text(LEFT - 6.0, y + 4.0, "end", &amount(value));
        }
        plot.text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0, "middle", titles.x);
        let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
        plot.add(&format!(
            r#"<text x="16" y="{middle:.1}" text-anchor="middle" transform="rotate(-90 16 {middle:.1})">{}</text>"#,
            escaped(titles.y)
        ));
        plot
    }

    /// Where a share of the width is.
    #[expect(clippy::unused_self, reason = "beside y, which needs it")]
    fn x(&self, share: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * share
    }

    /// Where a value is.
    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / self.y_end)
    }

    fn ticks_below(&mut self, end: f64) {
        for step in 0..=4 {
            let share = f64::from(step) / 4.0;
            let x = self.x(share);
            self.text(x, HEIGHT - BOTTOM + 16.0, "middle", &amount(end * share));
        }
    }

    fn legend(&mut self, index: usize, name: &str) {
        let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 18.0 * number(index));
        let colour = COLOURS[index % COLOURS.len()];
        self.add(&format!(r#"<rect x="{x:.1}" y="{:.1}" width="10" height="10" fill="{colour}"/>"#, y - 9.0));
        self.text(x + 16.0, y, "start", name);
    }

    fn goal(&mut self, goal: Option<f64>) {
        let Some(goal) = goal else { return };
        let y = self.y(goal);
        self.add(&format!(
            r##"<line x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="#c4314b" stroke-dasharray="6 4"/>"##,
            WIDTH - RIGHT
        ));
        self.text(WIDTH - RIGHT + 14.0, y + 4.0, "start", &format!("goal {}", amount(goal)));
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = escaped(text);
        self.add(&format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#));
    }

    fn add(&mut self, element: &str) {
        self.text.push_str(element);
        self.text.push('\n');
    }

    fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: Titles<'static> = Titles { plot: "a < b & \"c\"", x: "N", y: "s" };

    fn series() -> Vec<Series> {
        vec![
            Series { name: "Kantor & co".into(), points: vec![(100.0, 3.0), (1000.0, 25.0)] },
            Series { name: "floor".into(), points: vec![(100.0, 2.0), (1000.0, 19.0)] },
        ]
    }

    /// Each tag that is opened is closed, in order, and no bare sign is left in texts.
    fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some(start) = rest.find('<') {
            let text = &rest[..start];
            assert!(!text.contains('>'), "{text}");
            for part in text.split('&').skip(1) {
                assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|name| part.starts_with(name)), "{text}");
            }
            let end = start + rest[start..].find('>').expect("a tag ends");
            let tag = &rest[start + 1..end];
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{svg}");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().expect("a tag has a name"));
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn lines_are_well_formed_and_show_all_series_and_the_goal() {
        let svg = lines(&TITLES, &series(), Some(40.0));
        assert_well_formed(&svg);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("Kantor &amp; co") && svg.contains("goal 40"), "{svg}");
        assert!(!lines(&TITLES, &series(), Some(1000.0)).contains("goal"), "it would flatten everything");
    }

    #[test]
    fn bars_are_well_formed_and_have_their_values() {
        let svg = bars(&TITLES, &["N=100".into(), "N=1000".into()], &series(), None);
        assert_well_formed(&svg);
        assert_eq!(svg.matches("<rect").count(), 1 + 4 + 2, "background, bars, legend");
        assert!(svg.contains(">25<"), "{svg}");
    }

    #[test]
    fn plots_of_nothing_are_well_formed_too() {
        assert_well_formed(&lines(&TITLES, &[], None));
        assert_well_formed(&bars(&TITLES, &[], &[], None));
    }

    #[test]
    fn a_distribution_ends_with_all_samples() {
        let points = distribution(&[30.0, 10.0, 20.0, 40.0]);
        assert_eq!(points, [(10.0, 25.0), (20.0, 50.0), (30.0, 75.0), (40.0, 100.0)]);
    }
}
