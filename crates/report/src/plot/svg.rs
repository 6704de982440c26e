//! The few SVG elements that plots need.

use crate::escape::escape;
use std::fmt::Write as _;

/// Alignment of a text.
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

/// An SVG document being written. Coordinates are pixels from the upper left.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        let mut svg = Self { body: String::new(), width, height };
        svg.rect((0.0, 0.0, width, height), "#ffffff", None);
        svg
    }

    /// Writing into a string cannot fail.
    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(arguments);
        self.body.push('\n');
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{stroke}" stroke-width="{width}"/>"#
        ));
    }

    /// Draws a rectangle at x, y with a width and a height.
    pub(super) fn rect(&mut self, at: (f64, f64, f64, f64), fill: &str, stroke: Option<&str>) {
        let (x, y, w, h) = at;
        let stroke = stroke.unwrap_or("none");
        self.put(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}" fill="{fill}" stroke="{stroke}"/>"#
        ));
    }

    pub(super) fn band(&mut self, at: (f64, f64, f64, f64)) {
        let (x, y, w, h) = at;
        self.put(format_args!(
            r##"<rect x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}" fill="#000000" fill-opacity="0.10"/>"##
        ));
    }

    pub(super) fn polyline(&mut self, points: &[(f64, f64)], stroke: &str, dash: &str) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{x:.1},{y:.1} ");
        }
        self.put(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{stroke}" stroke-width="2" stroke-linejoin="round" stroke-dasharray="{dash}"/>"#,
            path.trim_end()
        ));
    }

    /// Draws one of four shapes, so that series differ in more than colour.
    pub(super) fn marker(&mut self, shape: usize, (x, y): (f64, f64), fill: &str) {
        match shape % 4 {
            0 => {
                self.put(format_args!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{fill}"/>"#))
            }
            1 => self.rect((x - 3.2, y - 3.2, 6.4, 6.4), fill, None),
            2 => self
                .put(format_args!(r#"<path d="M{x:.1} {:.1}l4 7h-8z" fill="{fill}"/>"#, y - 4.2)),
            _ => self.put(format_args!(
                r#"<path d="M{x:.1} {:.1}l4 4l-4 4l-4 -4z" fill="{fill}"/>"#,
                y - 4.0
            )),
        }
    }

    /// Draws the symbol of published values: a black cross over a white one, visible on every
    /// colour.
    pub(super) fn cross(&mut self, (x, y): (f64, f64)) {
        for (stroke, width) in [("#ffffff", 5.0), ("#000000", 2.2)] {
            self.line((x - 5.0, y - 5.0), (x + 5.0, y + 5.0), stroke, width);
            self.line((x - 5.0, y + 5.0), (x + 5.0, y - 5.0), stroke, width);
        }
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: u32, text: &str) {
        self.put(format_args!(
            r##"<text x="{x:.1}" y="{y:.1}" text-anchor="{}" font-size="{size}" fill="#222222">{}</text>"##,
            anchor.name(),
            escape(text)
        ));
    }

    /// Writes text that reads upwards.
    pub(super) fn text_upright(&mut self, (x, y): (f64, f64), size: u32, text: &str) {
        self.put(format_args!(
            r##"<text transform="translate({x:.1} {y:.1}) rotate(-90)" text-anchor="middle" font-size="{size}" fill="#222222">{}</text>"##,
            escape(text)
        ));
    }

    pub(super) fn finish(self) -> String {
        let Self { body, width, height } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" \
             font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n{body}</svg>\n"
        )
    }
}
