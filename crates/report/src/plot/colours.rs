//! Colours and shapes of a plot's series. All colours are assigned here.
//!
//! An unordered set takes the colours of the palette of Okabe and Ito that have a contrast of at
//! least 3:1 to the background, then two greys. Further series repeat a colour, but never with the
//! same dash or texture. An ordered set, such as frequencies or periods, takes shades that grow
//! steadily lighter or darker, so that colour-blind readers and grey prints show the order.

/// Colours of an unordered set: `--s0` to `--s5` of `plot.css`.
const COLOURS: usize = 6;
/// Shades of an ordered set: `--q0` to `--q15`, the one with the highest contrast to the background
/// first.
const SHADES: usize = 16;
/// Number of first shades with a contrast of at least 3:1 to the background, which lines need; bars
/// have an outline.
const SHADES_OF_LINES: usize = 9;
/// Dashes of lines, and textures of bars.
const STYLES: usize = 3;
/// Largest unordered set; a larger set is drawn as an ordered one, which has more looks.
const MOST_WITHOUT_ORDER: usize = COLOURS * STYLES;
/// Shapes of points.
const SHAPES: usize = 5;

/// Look of one series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    /// Suffix of a colour variable in `plot.css`, without the letter for the coloured part: `0` or
    /// `q0`.
    colour: String,
    /// Class of a name in this colour; empty if the colour is too faint for text.
    pub name: String,
    /// Dash or texture, from 0; 0 has none.
    pub style: usize,
    /// Shape of points, from 0.
    pub shape: usize,
    /// True if bars need an outline to stand out from the background.
    outlined: bool,
}

impl Look {
    /// Returns the class of a line.
    pub(super) fn line(&self) -> String {
        format!("l{}", self.colour)
    }
    /// Returns the class of a point or of its sign.
    pub(super) fn point(&self) -> String {
        format!("f{}", self.colour)
    }
    /// Returns the class of a bar.
    pub(super) fn bar(&self) -> String {
        format!("f{}{}", self.colour, if self.outlined { " outline" } else { "" })
    }
}

/// Returns the looks of all series of a plot with lines and points.
pub(super) fn line_looks(series: usize, ordered: bool) -> Vec<Look> {
    looks(series, ordered, SHADES_OF_LINES)
}

/// Returns the looks of all series of a plot with bars.
pub(super) fn bar_looks(series: usize, ordered: bool) -> Vec<Look> {
    looks(series, ordered, SHADES)
}

fn looks(series: usize, ordered: bool, shades: usize) -> Vec<Look> {
    let look = |index: usize| {
        if !ordered && series <= MOST_WITHOUT_ORDER {
            let colour = (index % COLOURS).to_string();
            return Look {
                name: format!("t{colour}"),
                colour,
                style: index / COLOURS,
                shape: index % SHAPES,
                outlined: false,
            };
        }
        let (shade, style) = if series <= shades {
            // The ends of the scale are always used, so that few series are far apart.
            ((index * (shades - 1) + (series - 1) / 2) / (series - 1).max(1), 0)
        } else {
            let shade = index * shades / series;
            (shade, index - (shade * series).div_ceil(shades))
        };
        Look {
            colour: format!("q{shade}"),
            name: String::new(),
            style,
            shape: index % SHAPES,
            outlined: true,
        }
    };
    (0..series).map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::super::svg::STYLE;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_series_look_alike() {
        for series in 0..=SHADES_OF_LINES * STYLES {
            for ordered in [false, true] {
                for looks in [line_looks(series, ordered), bar_looks(series, ordered)] {
                    let lines: BTreeSet<_> = looks.iter().map(|it| (it.line(), it.style)).collect();
                    let bars: BTreeSet<_> = looks.iter().map(|it| (it.bar(), it.style)).collect();
                    assert_eq!((lines.len(), bars.len()), (series, series), "ordered: {ordered}");
                }
            }
        }
        // Points have no dash.
        for series in 0..=SHADES_OF_LINES * STYLES {
            let points = line_looks(series, false);
            let points: BTreeSet<_> = points.iter().map(|it| (it.point(), it.shape)).collect();
            assert_eq!(points.len(), series);
        }
    }

    #[test]
    fn an_ordered_set_uses_the_whole_scale() {
        let ends = |looks: Vec<Look>| (looks[0].bar(), looks[looks.len() - 1].bar());
        let of =
            |first: &str, last: &str| (format!("f{first} outline"), format!("f{last} outline"));
        assert_eq!(ends(bar_looks(2, true)), of("q0", "q15"));
        assert_eq!(ends(bar_looks(11, true)), of("q0", "q15"));
        assert_eq!(ends(line_looks(3, true)), of("q0", "q8"));
        assert_eq!(ends(bar_looks(1, true)), of("q0", "q0"));
    }

    /// Returns the relative luminance (WCAG 2.2) of a variable of the style, in the light or the
    /// dark part.
    fn luminance(part: &str, name: &str) -> f64 {
        let value = part.split(&format!("--{name}:#")).nth(1).expect(name);
        let digits: String = value.chars().take_while(char::is_ascii_hexdigit).collect();
        let digits = match digits.len() {
            3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
            _ => digits,
        };
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&digits[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
    }

    #[test]
    fn shades_are_ordered_in_grey_and_lines_contrast_with_the_background() {
        let (light, dark) = STYLE.split_once("@media").unwrap();
        for part in [light, dark] {
            let paper = luminance(part, "paper");
            let shades: Vec<f64> =
                (0..SHADES).map(|shade| luminance(part, &format!("q{shade}"))).collect();
            let away: Vec<f64> = shades.iter().map(|shade| (shade - paper).abs()).collect();
            assert!(away.windows(2).all(|pair| pair[1] < pair[0]), "{away:?}");
            let contrast = |one: f64, two: f64| (one.max(two) + 0.05) / (one.min(two) + 0.05);
            for (shade, it) in shades.iter().enumerate().take(SHADES_OF_LINES) {
                assert!(contrast(*it, paper) >= 3.0, "q{shade}: {}", contrast(*it, paper));
            }
            for colour in 0..COLOURS {
                let it = luminance(part, &format!("s{colour}"));
                assert!(contrast(it, paper) >= 3.0, "s{colour}: {}", contrast(it, paper));
            }
            for variable in 0..SHADES {
                for letter in ["l", "f"] {
                    assert!(STYLE.contains(&format!(".plot .{letter}q{variable}{{")));
                }
            }
        }
    }
}
