//! Value of power that follows traffic, on measured servers of two decades.
//!
//! A result of SPECpower gives idle and full power under Java, but no packet capacity. The savings
//! on a day of traffic, between polling with constant power and a server that draws nothing when
//! idle, are therefore a range over [`ASSUMPTIONS`]. A sentence states only facts that hold over
//! the whole range.

use crate::curves::{Curve, LEVELS};
use crate::figure::Figure;
use wattline_report::Table;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_study::fit::spec::SpecResult;
use wattline_traffic::source::DayProfile;

/// Least number of results for the median of a year.
const FEW: usize = 5;
/// Compared servers: before the first year, from the second to before the third, and since the
/// third.
const PERIODS: [(f64, f64, &str); 3] = [
    (0.0, 2010.0, "before 2010"),
    (2017.0, 2021.0, "from 2017 to 2020"),
    (2021.0, 9999.0, "since 2021"),
];
/// Index in [`days`] of the plotted day.
const DRAWN: usize = 0;
/// Seed of the days, the same as in PowerSave's figures.
const SEED: u64 = 2012;

/// Assumptions about data missing in the results, each with two ends.
const ASSUMPTIONS: [(&str, [f64; 2]); 3] = [
    ("share of the server's capacity that the highest traffic of its links takes", [0.5, 1.0]),
    ("power above idle of forwarding at full load, as a share of that under Java", [0.6, 1.0]),
    ("power above idle of polling without packets, as a share of that at full load", [0.5, 1.0]),
];

/// Returns days as loads at equal steps.
fn days() -> [(&'static str, Vec<f64>); 4] {
    let day = |mean, highest, spikes| {
        DayProfile::new(mean, highest, 86_400.0, spikes, SEED).rates().to_vec()
    };
    let office = (0..24).map(|hour| if (8..16).contains(&hour) { 0.6 } else { 0.05 });
    [
        ("PowerSave's day: mean 35 %, spikes to 90 %", day(0.35, 0.9, 12)),
        ("links with room to grow: mean 10 %, spikes to 30 %", day(0.1, 0.3, 12)),
        ("an office: 60 % for eight hours, then 5 %", office.collect()),
        ("busy links: mean 65 %, at most 95 %", day(0.65, 0.95, 0)),
    ]
}

/// A choice of one end of each assumption, and a curve from idle to full power.
struct Case<'a> {
    capacity: f64,
    packets: f64,
    polling: f64,
    shape: &'a [f64],
}

/// Returns every choice of ends, with each of the curves.
fn cases(shapes: &[Vec<f64>]) -> Vec<Case<'_>> {
    let [(_, capacities), (_, swings), (_, pollings)] = ASSUMPTIONS;
    let mut cases = Vec::new();
    for shape in shapes {
        for capacity in capacities {
            for packets in swings {
                cases.extend(pollings.map(|polling| Case { capacity, packets, polling, shape }));
            }
        }
    }
    cases
}

/// Mean shares of the swing between idle and full power over a day.
#[derive(Debug, Clone, Copy)]
struct Day {
    load: f64,
    following: f64,
    polling: f64,
}

/// A server's mean watts over a day.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Watts {
    polling: f64,
    following: f64,
    ideal: f64,
}

impl Case<'_> {
    /// Returns the share of the swing at a load, interpolated between the levels of the curve.
    fn share(&self, load: f64) -> f64 {
        let steps = self.shape.len() - 1;
        let at = load.clamp(0.0, 1.0) * steps as f64;
        let below = (at as usize).min(steps - 1);
        let [low, high] = [self.shape[below], self.shape[below + 1]];
        low + (high - low) * (at - below as f64)
    }

    fn day(&self, loads: &[f64]) -> Day {
        let mean = |of: &dyn Fn(f64) -> f64| {
            loads.iter().map(|load| of(load * self.capacity)).sum::<f64>() / loads.len() as f64
        };
        Day {
            load: mean(&|load| load),
            following: mean(&|load| self.share(load)),
            // Polling does not make packets cheaper.
            polling: mean(&|load| self.share(load).max(self.polling)),
        }
    }

    fn watts(&self, server: &SpecResult, day: Day) -> Watts {
        let swing = self.packets * (server.watts_full - server.watts_idle);
        Watts {
            polling: server.watts_idle + swing * day.polling,
            following: server.watts_idle + swing * day.following,
            ideal: (server.watts_idle + swing) * day.load,
        }
    }
}

/// Medians over servers in one case.
#[derive(Debug, Clone, Copy)]
struct Worth {
    /// Power saved by following the curve, as a share of polling.
    saved: f64,
    /// Remaining power above an ideal server, as a share of polling.
    left: f64,
    /// Watts saved.
    saved_watts: f64,
}

impl Worth {
    fn medians(servers: &[&SpecResult], case: &Case<'_>, loads: &[f64]) -> Self {
        let day = case.day(loads);
        let watts: Vec<Watts> = servers.iter().map(|server| case.watts(server, day)).collect();
        let median = |of: &dyn Fn(&Watts) -> f64| {
            let mut all: Vec<f64> = watts.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            let half = all.len() / 2;
            if all.len().is_multiple_of(2) { (all[half - 1] + all[half]) / 2.0 } else { all[half] }
        };
        Self {
            saved: median(&|it| (it.polling - it.following) / it.polling),
            left: median(&|it| (it.following - it.ideal) / it.polling),
            saved_watts: median(&|it| it.polling - it.following),
        }
    }
}

/// Returns the least and the greatest of a figure.
fn range(worths: &[Worth], of: impl Fn(&Worth) -> f64) -> [f64; 2] {
    let ends = |[low, high]: [f64; 2], value: f64| [low.min(value), high.max(value)];
    worths.iter().map(of).fold([f64::INFINITY, f64::NEG_INFINITY], ends)
}

/// Returns the word for a comparison with the same result in all cases.
fn always(later: &[Worth], earlier: &[Worth], of: impl Fn(&Worth) -> f64) -> Option<&'static str> {
    let pairs = || later.iter().zip(earlier).map(|(one, other)| (of(one), of(other)));
    if pairs().all(|(one, other)| one > other) {
        return Some("more");
    }
    pairs().all(|(one, other)| one < other).then_some("less")
}

/// Accessor of a share.
type OfWorth = fn(&Worth) -> f64;

/// Returns sentences that hold under every assumption and on every day.
fn sentences(servers: &[SpecResult], shapes: &[Vec<f64>]) -> String {
    let days = days();
    let [first, middle, last] = PERIODS.map(|(from, to, _)| {
        let of: Vec<&SpecResult> =
            servers.iter().filter(|server| (from..to).contains(&server.year)).collect();
        let each = |(_, loads): &(_, Vec<f64>)| {
            cases(shapes).iter().map(|case| Worth::medians(&of, case, loads)).collect::<Vec<_>>()
        };
        if of.len() < FEW { Vec::new() } else { days.iter().flat_map(each).collect() }
    });
    let [before, between, since] = PERIODS.map(|(.., name)| name);
    if last.is_empty() {
        return format!("Too few servers {since} for a statement.");
    }
    let percent = |[low, high]: [f64; 2]| format!("{:.0} to {:.0} %", 100.0 * low, 100.0 * high);
    let drawn = &last[..last.len() / days.len()];
    let mut text = format!(
        "On servers {since}, power that follows traffic takes {} less than polling on PowerSave's \
         day, and {} on all days; an ideal server would take a further {} on PowerSave's day.",
        percent(range(drawn, |it| it.saved)),
        percent(range(&last, |it| it.saved)),
        percent(range(drawn, |it| it.left))
    );
    let figures: [(&str, OfWorth); 2] =
        [("saves over polling", |it| it.saved), ("leaves to an ideal server", |it| it.left)];
    for (name, of) in figures {
        for (other, of_others) in [(before, &first), (between, &middle)] {
            let word = if of_others.is_empty() { None } else { always(&last, of_others, of) };
            if let Some(word) = word {
                text.push_str(&format!(
                    " In every case it {name} {word}, as a share, than on servers {other}."
                ));
            }
        }
    }
    text
}

/// Returns the least and the greatest measured curve, or a straight line without curves.
fn shapes(curves: &[Curve]) -> Vec<Vec<f64>> {
    let levels = 0..LEVELS.len();
    if curves.is_empty() {
        return vec![levels.map(|level| level as f64 / (LEVELS.len() - 1) as f64).collect()];
    }
    let ends: [fn(f64, f64) -> f64; 2] = [f64::min, f64::max];
    let end = |end: fn(f64, f64) -> f64| {
        let of = |level: usize| curves.iter().map(|curve| curve.shape[level]).reduce(end);
        levels.clone().filter_map(of).collect()
    };
    ends.map(end).to_vec()
}

/// Makes the figure about the value of power that follows traffic.
pub(crate) fn worth(servers: &[SpecResult], curves: &[Curve]) -> Figure {
    let shapes = shapes(curves);
    let mut table = Table::new([
        "year",
        "servers",
        "day",
        "saved_percent_least",
        "saved_percent_greatest",
        "left_percent_least",
        "left_percent_greatest",
        "saved_watts_least",
        "saved_watts_greatest",
    ]);
    let mut years: Vec<u32> = servers.iter().map(|server| server.year as u32).collect();
    years.sort_unstable();
    years.dedup();
    let mut drawn: [Vec<(f64, f64)>; 4] = Default::default();
    for year in years {
        let of: Vec<&SpecResult> =
            servers.iter().filter(|server| server.year as u32 == year).collect();
        if of.len() < FEW {
            continue;
        }
        for (place, (name, loads)) in days().iter().enumerate() {
            let worths: Vec<Worth> =
                cases(&shapes).iter().map(|case| Worth::medians(&of, case, loads)).collect();
            let percent = |of: fn(&Worth) -> f64| range(&worths, of).map(|end| 100.0 * end);
            let [saved, left] = [percent(|it| it.saved), percent(|it| it.left)];
            let watts = range(&worths, |it| it.saved_watts);
            let [a, b, c, d, e, f] = [saved[0], saved[1], left[0], left[1], watts[0], watts[1]]
                .map(|end| format!("{end:.0}"));
            table.row([
                year.to_string(),
                of.len().to_string(),
                (*name).to_owned(),
                a,
                b,
                c,
                d,
                e,
                f,
            ]);
            if place == DRAWN {
                let ends = [saved, left].into_iter().flatten();
                for (line, end) in drawn.iter_mut().zip(ends) {
                    line.push((f64::from(year), end));
                }
            }
        }
    }
    let names = [
        "saved by following, least",
        "saved by following, greatest",
        "left to an ideal server, least",
        "left to an ideal server, greatest",
    ];
    let mut chart = Chart::new(
        "Worth of power that follows traffic, on PowerSave's day",
        Axis::new("year of publication"),
        Axis::new("share of the power of polling (%)"),
    );
    for (name, line) in names.into_iter().zip(drawn) {
        chart = chart.series(name, Mark::LineAndPoints, line);
    }
    let assumed = ASSUMPTIONS.map(|(name, [low, high])| format!("{name} ({low} to {high})"));
    let between = match curves.len() {
        0 => "a straight line, as no curve is given".to_owned(),
        count => format!("the least and the greatest of {count} measured curves"),
    };
    let others: Vec<&str> = days().into_iter().map(|(name, _)| name).collect();
    Figure {
        id: "worth",
        title: "Worth of power that follows traffic, by year".into(),
        about: format!(
            "{} Medians of measured servers, whose results are of Java and have no packet capacity; so \
             each figure is a range over assumptions: {}; between idle and full load, {between}. \
             Days, assumed: {}. Cards are left out.",
            sentences(servers, &shapes),
            assumed.join("; "),
            others.join("; ")
        ),
        table,
        plots: vec![chart.svg()],
        checks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_study::fit::spec::SpecResults;

    /// Returns ten servers of each year, which draw 200 W at full load and a share of it when idle.
    fn servers(years: &[(u32, f64)]) -> Vec<SpecResult> {
        let mut text = String::from(
            "published,system,cpu,chips,cores,processor_mhz,memory_gb,watts_full,watts_idle\n",
        );
        for (year, idle) in years {
            text.push_str(&format!("May-{year},s,c,1,8,2000,8,200,{}\n", 200.0 * idle).repeat(10));
        }
        SpecResults::parse("s.csv", &text).unwrap().rows
    }

    fn line() -> Vec<f64> {
        shapes(&[]).remove(0)
    }

    #[test]
    fn watts_lie_between_polling_and_an_ideal_server() {
        let line = line();
        let case = Case { capacity: 1.0, packets: 1.0, polling: 1.0, shape: &line };
        let server = &servers(&[(2021, 0.25)])[0];
        let watts = case.watts(server, case.day(&[0.0, 0.5, 1.0]));
        assert_eq!(watts, Watts { polling: 200.0, following: 125.0, ideal: 100.0 });
        let half = Case { capacity: 0.5, packets: 0.6, polling: 0.5, ..case };
        let watts = half.watts(server, half.day(&[0.0, 1.0]));
        assert_eq!(watts, Watts { polling: 95.0, following: 72.5, ideal: 35.0 });
    }

    #[test]
    fn days_keep_their_means() {
        let means = days().map(|(_, loads)| loads.iter().sum::<f64>() / loads.len() as f64);
        for (mean, wanted) in means.into_iter().zip([0.35, 0.1, 7.0 / 30.0, 0.65]) {
            assert!((mean - wanted).abs() < 1e-6, "{mean}, wanted {wanted}");
        }
    }

    /// A lower share of idle power saves more in every case; an equal share gives no sentence.
    #[test]
    fn sentence_states_only_facts_of_every_case() {
        let shapes = [line()];
        let better = sentences(&servers(&[(2008, 0.6), (2018, 0.15), (2022, 0.25)]), &shapes);
        for part in [
            "saves over polling more, as a share, than on servers before 2010",
            "saves over polling less, as a share, than on servers from 2017 to 2020",
            "leaves to an ideal server less, as a share, than on servers before 2010",
            "leaves to an ideal server more, as a share, than on servers from 2017 to 2020",
        ] {
            assert!(better.contains(part), "{part}: {better}");
        }
        let same = sentences(&servers(&[(2008, 0.25), (2018, 0.25), (2022, 0.25)]), &shapes);
        assert!(!same.contains("In every case"), "{same}");
        let none = sentences(&servers(&[(2008, 0.25)]), &shapes);
        assert_eq!(none, "Too few servers since 2021 for a statement.");
    }

    #[test]
    fn figure_has_each_year_with_enough_servers_and_names_its_assumptions() {
        let mut rows = servers(&[(2008, 0.6), (2022, 0.2)]);
        rows.extend(servers(&[(2015, 0.2)]).into_iter().take(FEW - 1));
        let figure = worth(&rows, &[]);
        assert_eq!(figure.table.rows.len(), 2 * days().len());
        for (name, _) in ASSUMPTIONS {
            assert!(figure.about.contains(name), "{}", figure.about);
        }
        let number =
            |row: usize, column: usize| figure.table.rows[row][column].parse::<f64>().unwrap();
        for row in 0..figure.table.rows.len() {
            for least in [3, 5, 7] {
                assert!(number(row, least) <= number(row, least + 1), "row {row}");
            }
        }
        assert!(number(4, 3) > number(0, 3), "less idle power saves more");
    }
}
