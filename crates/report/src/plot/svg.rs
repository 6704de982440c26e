//! Writer of the few SVG elements that plots need.

use super::colours::Look;
use crate::escape::escape;
use crate::table::number;
use std::fmt::{self, Write as _};

/// Line styles of [`Look::style`].
const DASHES: [&str; 3] = ["", r#" stroke-dasharray="7 4""#, r#" stroke-dasharray="2 3""#];
/// Distance between two lines of a texture.
const HATCH: f64 = 6.0;
/// Largest number of values of a series that a page shows under the pointer and exports, since a
/// screen cannot show more. Of a longer series, only every second, third, … value is kept.
const MOST_VALUES: usize = 250;

/// Anchor of a text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// Style with the colours of all plots, in light and dark.
pub(crate) const STYLE: &str = include_str!("plot.css");

/// Returns [`STYLE`] as an element of a plot, so that the plot can be a separate file.
pub(crate) fn style_element() -> String {
    format!("<style>{STYLE}</style>\n")
}

/// A coordinate, printed to a tenth of a pixel without superfluous digits, since a page has
/// thousands.
struct Pixel(f64);

impl fmt::Display for Pixel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.1}", self.0);
        f.write_str(text.strip_suffix(".0").unwrap_or(&text))
    }
}

/// Coordinates of a pixel, or of a value on the two axes.
type Pair = (f64, f64);

/// An SVG document being written. Coordinates are pixels from the upper left.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
    /// Description for readers who cannot see the plot.
    label: String,
    title: String,
    /// Names and units of the axes.
    x_label: String,
    y_label: String,
}

/// Returns the path of a point.
fn shape(shape: usize, (x, y): (f64, f64)) -> String {
    match shape {
        // A line of length zero, whose round ends form a dot.
        0 => format!("M{} {}h0", Pixel(x), Pixel(y)),
        1 => format!("M{} {}h6.4v6.4h-6.4z", Pixel(x - 3.2), Pixel(y - 3.2)),
        2 => format!("M{} {}l4 7h-8z", Pixel(x), Pixel(y - 4.2)),
        3 => format!("M{} {}l4 4l-4 4l-4 -4z", Pixel(x), Pixel(y - 4.0)),
        _ => format!("M{} {}l4 -7h-8z", Pixel(x), Pixel(y + 4.2)),
    }
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str, x_label: &str, y_label: &str) -> Self {
        let label = format!("{title}: {y_label} over {x_label}");
        let [title, x_label, y_label] = [title, x_label, y_label].map(str::to_owned);
        Self { body: String::new(), width, height, label, title, x_label, y_label }
    }

    /// Extends the plot down to `height`.
    pub(super) fn grow(&mut self, height: f64) {
        self.height = self.height.max(height);
    }

    /// Begins the names to the right of the plot. On a narrow screen, the page's script moves them
    /// below the axes and their names.
    pub(super) fn begin_names(&mut self) {
        let below = self.height;
        self.put(format_args!(r#"<g class="names" data-below="{below:.0}">"#));
    }

    /// Begins a name whose first line is at `y`. To the right of the plot, each name is near the
    /// end of its line; below the plot, names follow each other without gaps.
    pub(super) fn begin_name(&mut self, y: f64, height: f64) {
        self.put(format_args!(r#"<g class="name" data-top="{y:.1}" data-height="{height:.1}">"#));
    }

    /// Ends a name, or the group of names.
    pub(super) fn end_names(&mut self) {
        self.put(format_args!("</g>"));
    }

    /// Writing into a string cannot fail.
    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(arguments);
        self.body.push('\n');
    }

    /// Draws a line of a class of `plot.css`.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(Pixel);
        self.put(format_args!(
            r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#
        ));
    }

    /// Draws a rectangle of these classes: x, y, width, height.
    pub(super) fn rect(&mut self, at: (f64, f64, f64, f64), class: &str) {
        let [x, y, w, h] = <[f64; 4]>::from(at).map(Pixel);
        self.put(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{w}" height="{h}"/>"#
        ));
    }

    /// Draws a rectangle with a text that is shown under the pointer.
    pub(super) fn titled_rect(&mut self, at: (f64, f64, f64, f64), class: &str, title: &str) {
        let [x, y, w, h] = <[f64; 4]>::from(at).map(Pixel);
        self.put(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{w}" height="{h}"><title>{}</title></rect>"#,
            escape(title)
        ));
    }

    /// Draws a line through points, in the colour and with the dash of a series.
    pub(super) fn polyline(&mut self, points: &[(f64, f64)], look: &Look) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{},{} ", Pixel(*x), Pixel(*y));
        }
        self.put(format_args!(
            r#"<polyline class="{}" points="{}"{}/>"#,
            look.line(),
            path.trim_end(),
            DASHES[look.style % DASHES.len()]
        ));
    }

    /// Draws the texture of a bar over the bar: x, y, width, height. The first style has none.
    pub(super) fn texture(&mut self, (x, y, w, h): (f64, f64, f64, f64), look: &Look) {
        let mut path = String::new();
        match look.style % DASHES.len() {
            0 => return,
            // Lines that fall to the left, clipped to the bar.
            1 => {
                let mut sum = HATCH;
                while sum < w + h {
                    let (right, left) = (sum.min(w), (sum - h).max(0.0));
                    let from = (x + right, y + sum - right);
                    let to = (x + left, y + sum - left);
                    let _ = write!(path, "M{:.1} {:.1}L{:.1} {:.1}", from.0, from.1, to.0, to.1);
                    sum += HATCH * std::f64::consts::SQRT_2;
                }
            }
            _ => {
                let mut down = HATCH / 2.0;
                while down < h {
                    let _ = write!(path, "M{x:.1} {:.1}h{w:.1}", y + down);
                    down += HATCH;
                }
            }
        }
        self.put(format_args!(r#"<path class="hatch" d="{path}"/>"#));
    }

    /// Draws the points of a series as one path, in one of five shapes, so that series differ not
    /// only in colour.
    pub(super) fn markers(&mut self, look: &Look, points: impl Iterator<Item = (f64, f64)>) {
        let path: String = points.map(|at| shape(look.shape, at)).collect();
        let class = if look.shape == 0 { format!("dots {}", look.line()) } else { look.point() };
        if !path.is_empty() {
            self.put(format_args!(r#"<path class="{class}" d="{path}"/>"#));
        }
    }

    /// Draws the outline of a point.
    pub(super) fn hollow_marker(&mut self, look: &Look, (x, y): (f64, f64)) {
        let path = match look.shape {
            // A dot has no outline of its own.
            0 => format!("M{} {}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", Pixel(x - 3.0), Pixel(y)),
            other => shape(other, (x, y)),
        };
        self.put(format_args!(r#"<path class="hollow {}" d="{path}"/>"#, look.line()));
    }

    /// Writes the texts of ticks, with their common attributes only once.
    pub(super) fn ticks(
        &mut self,
        anchor: Anchor,
        texts: impl Iterator<Item = ((f64, f64), String)>,
    ) {
        self.put(format_args!(
            r#"<g class="tick" text-anchor="{}" font-size="13">"#,
            anchor.name()
        ));
        for ((x, y), text) in texts {
            self.put(format_args!(
                r#"<text x="{}" y="{}">{}</text>"#,
                Pixel(x),
                Pixel(y),
                escape(&text)
            ));
        }
        self.put(format_args!("</g>"));
    }

    /// Draws lines of the grid as one path.
    pub(super) fn grid(&mut self, lines: impl Iterator<Item = ((f64, f64), (f64, f64))>) {
        let mut path = String::new();
        for ((x1, y1), (x2, y2)) in lines {
            let _ = write!(path, "M{} {}L{} {}", Pixel(x1), Pixel(y1), Pixel(x2), Pixel(y2));
        }
        self.put(format_args!(r#"<path class="grid" d="{path}"/>"#));
    }

    /// Draws the sign of a published value: a cross on a wider one in the background colour, so
    /// that it is visible on every colour.
    pub(super) fn cross(&mut self, (x, y): (f64, f64)) {
        for class in ["under", "cross"] {
            self.line((x - 5.0, y - 5.0), (x + 5.0, y + 5.0), class);
            self.line((x - 5.0, y + 5.0), (x + 5.0, y - 5.0), class);
        }
    }

    /// Draws an interval over a bar at `x`.
    pub(super) fn interval(&mut self, x: f64, (from, to): (f64, f64)) {
        self.line((x, from), (x, to), "half");
        for y in [from, to] {
            self.line((x - 4.0, y), (x + 4.0, y), "half");
        }
    }

    /// Writes a text; `class` is empty or the colour of a series.
    pub(super) fn text(
        &mut self,
        (x, y): (f64, f64),
        anchor: Anchor,
        size: u32,
        class: &str,
        text: &str,
    ) {
        self.put(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{}" font-size="{size}">{}</text>"#,
            anchor.name(),
            escape(text)
        ));
    }

    /// Writes a text that reads upwards; the anchor is the point of the text at this position.
    pub(super) fn text_upright(&mut self, at: (f64, f64), anchor: Anchor, size: u32, text: &str) {
        self.turned(at, -90, anchor, size, text);
    }

    /// Writes a slanted text that ends at this position.
    pub(super) fn text_leaning(&mut self, at: (f64, f64), size: u32, text: &str) {
        self.turned(at, -45, Anchor::End, size, text);
    }

    fn turned(&mut self, (x, y): (f64, f64), by: i32, anchor: Anchor, size: u32, text: &str) {
        self.put(format_args!(
            r#"<text transform="translate({x:.1} {y:.1}) rotate({by})" text-anchor="{}" font-size="{size}">{}</text>"#,
            anchor.name(),
            escape(text)
        ));
    }

    /// Adds the values of a series for the page's script: pixels first, then data.
    pub(super) fn values(&mut self, name: &str, points: &[(Pair, Pair)]) {
        let every = points.len().div_ceil(MOST_VALUES).max(1);
        let mut all = String::new();
        for ((px, py), (x, y)) in points.iter().step_by(every) {
            let _ = write!(all, "{px:.0},{py:.0},{},{} ", number(*x), number(*y));
        }
        self.put(format_args!(r#"<g data-name="{}" data-at="{}"/>"#, escape(name), all.trim_end()));
    }

    /// Adds the values of bars for the page's script, by group as in the plot.
    pub(super) fn bar_values(&mut self, groups: &[String], series: &[(&str, Vec<String>)]) {
        let data = serde_json::json!({ "groups": groups, "series": series });
        self.put(format_args!(r#"<g data-bars="{}"/>"#, escape(&data.to_string())));
    }

    pub(super) fn finish(self) -> String {
        let Self { body, width, height, label, title, x_label, y_label } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\" \
             data-title=\"{}\" data-x=\"{}\" data-y=\"{}\">\n{}<rect class=\"paper\" x=\"0\" y=\"0\" \
             width=\"{width:.0}\" height=\"{height:.0}\"/>\n{body}</svg>\n",
            escape(&label),
            escape(&title),
            escape(&x_label),
            escape(&y_label),
            style_element(),
        )
    }
}
