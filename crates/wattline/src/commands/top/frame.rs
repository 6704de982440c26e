//! A frame of the view, and the same as plain text.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table};
use std::fmt::Write as _;
use wattline_status::Rates;

/// Maximum number of samples in the curves.
const HISTORY: usize = 512;

/// Values of the curves, newest last.
#[derive(Debug, Clone, Default)]
pub struct History {
    offered: Vec<u64>,
    dropped: Vec<u64>,
    busy: Vec<u64>,
    watts: Vec<u64>,
}

impl History {
    /// Adds a sample.
    pub fn push(&mut self, rates: &Rates) {
        let active: Vec<f64> = rates
            .workers
            .iter()
            .filter(|worker| worker.active)
            .map(|worker| worker.work_ratio)
            .collect();
        let busy = active.iter().sum::<f64>() / active.len().max(1) as f64;
        let watts = rates.power.as_ref().and_then(|power| power.power_watts);
        for (curve, value) in [
            (&mut self.offered, rates.offered()),
            (&mut self.dropped, rates.dropped()),
            (&mut self.busy, 100.0 * busy),
            (&mut self.watts, watts.unwrap_or(0.0)),
        ] {
            if curve.len() == HISTORY {
                curve.remove(0);
            }
            // Negative and not-a-number become zero.
            curve.push(value.round() as u64);
        }
    }
}

/// Draws a sample; `problem` is the reason why there is no newer one.
pub fn draw(frame: &mut Frame<'_>, rates: &Rates, history: &History, problem: Option<&str>) {
    let rows = |count: usize| Constraint::Length(u16::try_from(count + 3).unwrap_or(u16::MAX));
    let [head, curves, ports, workers, drops, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(5),
        rows(rates.ports.len()),
        rows(rates.workers.len()),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(headline(rates)), head);
    draw_curves(frame, curves, rates, history);
    frame.render_widget(port_table(rates), ports);
    frame.render_widget(worker_table(rates), workers);
    frame.render_widget(drop_table(rates), drops);
    let foot_line = match problem {
        Some(problem) => Line::from(problem.to_owned()).fg(Color::Red),
        None => Line::from("q ends").dim(),
    };
    frame.render_widget(Paragraph::new(foot_line), foot);
}

/// Puts watts before the policy: on a narrow terminal they must not lose their source.
fn headline(rates: &Rates) -> String {
    let power = rates.power.as_ref();
    let policy = power.map_or("none", |power| power.policy.as_str());
    let watts = power.map_or("unavailable".to_owned(), |power| power.describe());
    let micros = |seconds: Option<f64>| Some(1e6 * seconds?);
    let latency = power.and_then(|power| {
        let median = micros(power.latency_p50_seconds)?;
        let high = micros(power.latency_p99_seconds)?;
        Some(format!("  latency p50 {median:.0} us p99 {high:.0} us"))
    });
    let latency = latency.unwrap_or_default();
    let moderation = power.and_then(|power| power.moderation.in_words());
    let moderation = moderation.map_or(String::new(), |words| format!("  moderation {words}"));
    format!(
        "up {:.0} s  offered {}  forwarded {}  power {watts}  policy {policy}{latency}{moderation}",
        rates.uptime_seconds,
        packets(rates.offered()),
        packets(rates.forwarded())
    )
}

fn draw_curves(frame: &mut Frame<'_>, area: Rect, rates: &Rates, history: &History) {
    let areas: [Rect; 4] = Layout::horizontal([Constraint::Ratio(1, 4); 4]).areas(area);
    let watts = rates.power.as_ref().and_then(|power| power.power_watts);
    let curves = [
        ("offered".to_owned(), &history.offered, None),
        ("busy, %".to_owned(), &history.busy, Some(100)),
        ("dropped".to_owned(), &history.dropped, None),
        (watts.map_or("power: none".into(), |_| "power, W".to_owned()), &history.watts, None),
    ];
    for (area, (title, data, top)) in areas.into_iter().zip(curves) {
        let block = Block::bordered().title(title);
        let room = usize::from(area.width.saturating_sub(2));
        let shown = &data[data.len().saturating_sub(room)..];
        let mut curve = Sparkline::default().block(block).data(shown).style(Style::new().cyan());
        if let Some(top) = top {
            curve = curve.max(top);
        }
        frame.render_widget(curve, area);
    }
}

fn table<'a, const N: usize>(
    title: &'a str,
    head: [&'a str; N],
    rows: Vec<[String; N]>,
) -> Table<'a> {
    // Numbers are right-aligned in their column.
    let cell = |(column, text): (usize, String)| {
        let line = Line::from(text);
        Cell::from(Text::from(if column == 0 { line } else { line.right_aligned() }))
    };
    let row = |cells: [String; N]| Row::new(cells.into_iter().enumerate().map(cell));
    let head = row(head.map(str::to_owned)).bold();
    let widths = (0..N).map(|column| Constraint::Length(if column == 0 { 24 } else { 14 }));
    Table::new(rows.into_iter().map(row), widths).header(head).block(Block::bordered().title(title))
}

fn port_rows(rates: &Rates) -> Vec<[String; 6]> {
    let row = |port: &wattline_status::Port| {
        [
            port.name.clone(),
            packets(port.offered_rate_pps),
            packets(port.forwarded_rate_pps),
            bits(port.received_bits_per_second),
            bits(port.transmitted_bits_per_second),
            port.state.clone(),
        ]
    };
    rates.ports.iter().map(row).collect()
}

fn worker_rows(rates: &Rates) -> Vec<[String; 6]> {
    let row = |(index, worker): (usize, &wattline_status::Worker)| {
        let state = if worker.active { "" } else { " (parked)" };
        [
            format!("{index}{state}"),
            packets(worker.received_rate_pps),
            format!("{:.1} %", 100.0 * worker.work_ratio),
            worker.frequency_hertz.map_or("-".into(), |hertz| format!("{:.2} GHz", hertz / 1e9)),
            format!("{:.0}/s", worker.sleeps_per_second),
            worker.kernel_work_share.map_or("-".into(), |share| format!("{:.1} %", 100.0 * share)),
        ]
    };
    rates.workers.iter().enumerate().map(row).collect()
}

fn drop_rows(rates: &Rates) -> Vec<[String; 3]> {
    let row = |drop: &wattline_status::Drop| {
        [drop.reason.clone(), drop.packets.to_string(), packets(drop.rate_pps)]
    };
    rates.drops.iter().chain(&rates.losses).map(row).collect()
}

const PORTS: [&str; 6] = ["port", "offered", "forwarded", "in", "out", "state"];
/// The last column is the kernel's share of the busy time: its work for packets on the worker's
/// CPU.
const WORKERS: [&str; 6] = ["core", "took", "busy", "frequency", "sleeps", "of it kernel"];
/// Losses of applications follow drops: their names say what they count.
const DROPS: [&str; 3] = ["dropped for", "packets", "now"];

fn port_table(rates: &Rates) -> Table<'static> {
    table("ports", PORTS, port_rows(rates))
}

fn worker_table(rates: &Rates) -> Table<'static> {
    table("cores", WORKERS, worker_rows(rates))
}

fn drop_table(rates: &Rates) -> Table<'static> {
    table("drops", DROPS, drop_rows(rates))
}

/// Formats a sample as plain text.
pub fn text(rates: &Rates) -> String {
    fn rows<const N: usize>(text: &mut String, head: [&str; N], rows: Vec<[String; N]>) {
        for row in std::iter::once(head.map(str::to_owned)).chain(rows) {
            let mut cells = row.into_iter();
            // Writing into a string does not fail.
            let _ = write!(text, "{:<20}", cells.next().unwrap_or_default());
            for cell in cells {
                let _ = write!(text, " {cell:>14}");
            }
            text.push('\n');
        }
    }
    let mut text = headline(rates);
    text.push_str("\n\n");
    rows(&mut text, PORTS, port_rows(rates));
    text.push('\n');
    rows(&mut text, WORKERS, worker_rows(rates));
    text.push('\n');
    rows(&mut text, DROPS, drop_rows(rates));
    text
}

/// Formats a rate with a suitable unit.
fn packets(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.2} Mpps", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.2} kpps", rate / 1e3),
        rate => format!("{rate:.0} pps"),
    }
}

/// Formats bits per second with a suitable unit.
pub fn bits(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        Some(rate) if rate >= 1e6 => format!("{:.2} Mbit/s", rate / 1e6),
        Some(rate) if rate >= 1e3 => format!("{:.2} kbit/s", rate / 1e3),
        Some(rate) => format!("{rate:.0} bit/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use wattline_status::{Sample, Stats, example};

    fn rates() -> Rates {
        Rates::between(&Sample::of(&example(10.0, 1_000)), &Sample::of(&example(12.0, 5_000)))
    }

    fn drawn(width: u16, height: u16, problem: Option<&str>) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut history = History::default();
        for _ in 0..3 {
            history.push(&rates());
        }
        terminal.draw(|frame| draw(frame, &rates(), &history, problem)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect();
        (0..height).map(line).collect()
    }

    #[test]
    fn a_frame_shows_ports_cores_drops_and_watts_with_their_source() {
        let lines = drawn(110, 30, None);
        let has = |words: &[&str]| {
            assert!(
                lines.iter().any(|line| words.iter().all(|word| line.contains(word))),
                "{words:?} in\n{}",
                lines.join("\n")
            );
        };
        has(&["offered 2.00 kpps", "forwarded 1.00 kpps", "131.5 W (emulated, static)"]);
        has(&["left", "2.00 kpps", "960.00 kbit/s", "up"]);
        has(&["flow-records-overload", "5000"]);
        has(&["0 ", "25.0 %", "1.60 GHz", "20/s"]);
        has(&["1 (parked)", "30.0 %", "3.30 GHz"]);
        has(&["no-route", "500", "200 pps"]);
        has(&["███", "▆▆▆"]);
        has(&["q ends"]);
    }

    #[test]
    fn frame_fits_any_terminal_and_shows_problems() {
        for (width, height) in [(1, 1), (20, 5), (300, 3)] {
            drawn(width, height, None);
        }
        let lines = drawn(81, 25, Some("no router answers"));
        assert!(lines[0].contains("131.5 W (emulated, static)"), "{}", lines[0]);
        assert!(lines[24].contains("no router answers"));
    }

    #[test]
    fn interrupt_moderation_is_shown_where_it_is_governed() {
        assert!(!headline(&rates()).contains("moderation"));
        let mut later = example(12.0, 5_000);
        if let Stats::Router(stats) = &mut later
            && let Some(power) = &mut stats.power
        {
            power.moderation.moderation_seconds = vec![1e-3, 2e-5];
            power.moderation.moderation_as_found = vec![false, false];
        }
        let rates = Rates::between(&Sample::of(&example(10.0, 1_000)), &Sample::of(&later));
        assert!(headline(&rates).ends_with("moderation 20 to 1000 us"), "{}", headline(&rates));
    }

    #[test]
    fn plain_text_has_the_same_content() {
        let text = text(&rates());
        for word in [
            "left",
            "no-route",
            "1 (parked)",
            "131.5 W (emulated, static)",
            "latency p50 9 us p99 50 us",
        ] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
    }
}
