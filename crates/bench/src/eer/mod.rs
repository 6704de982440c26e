//! The energy efficiency ratio of a forwarding device, with its readings: power without ports,
//! idle, nearly idle, typical and full, at loads without loss.
//!
//! The method is that of draft-ietf-bmwg-powerbench. First comes the throughput without loss. Power
//! is read at shares of it, each after a stabilisation interval, over a measurement interval. At
//! the end the device must bear the full load once more without loss, or the result is void. A
//! [`Subject`] is a device with a meter, or a model that labels all its figures as such.

mod class;
mod figures;
mod forwarder;
mod page;
mod reading;
mod remarks;
mod subject;

pub use class::{Class, Weighted};
pub use figures::{dynamic_range, efficiency_ratio, proportionality};
pub use forwarder::{Forwarder, ForwarderOptions};
pub use page::page;
pub use reading::{Processor, Reading, State};
pub use subject::{Description, Load, Subject};

use serde::Serialize;

/// A reading with its name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// `base`, `idle`, `idle+`, or the share of the throughput in percent.
    pub name: String,
    /// Share of the throughput.
    pub share: Option<f64>,
    /// Reading at this load.
    #[serde(flatten)]
    pub reading: Reading,
}

impl Step {
    /// Returns true if the step is on the curve of power over load.
    fn is_on_curve(&self) -> bool {
        self.share.is_some() && !["idle+", AGAIN].contains(&&*self.name)
    }
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Description of the subject.
    #[serde(flatten)]
    pub description: Description,
    /// Class whose weights are used.
    pub class: Class,
    /// Loads and weights of the class.
    pub loads: [Weighted; 3],
    /// Highest load found without loss and without growing queues.
    pub throughput_pps: f64,
    /// Number of reductions by a fifth after a later reading disproved the throughput.
    pub lowered: u32,
    /// Every reading, in order.
    pub steps: Vec<Step>,
    /// Energy efficiency ratio in bits per second per watt; `None` if the result is void.
    pub eer_bps_per_watt: Option<f64>,
    /// See [`proportionality`].
    pub proportionality_index: Option<f64>,
    /// See [`dynamic_range`].
    pub dynamic_range_ratio: Option<f64>,
    /// Reason why there is no ratio.
    pub void: Option<String>,
}

/// Name of the last reading.
const AGAIN: &str = "100 % again";
/// Largest relative distance between the bounds of the throughput.
const WIDTH: f64 = 0.02;
/// Lowest load of the search as a share of the highest.
const LEAST: f64 = 1e-4;
/// Factor by which a throughput that does not hold is lowered.
const LOWER: f64 = 0.8;
/// Loads of the curve of proportionality, in tenths.
const TENTHS: std::ops::RangeInclusive<u32> = 1..=10;

/// Measures a subject. `progress` is called with a line for people before each step.
///
/// # Errors
/// Returns the error of the subject.
pub fn run(
    subject: &mut dyn Subject,
    class: Class,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, String> {
    progress("base");
    let base = subject.base()?;
    progress("searching the throughput");
    let mut throughput = throughput(subject)?;
    let mut lowered = 0;
    loop {
        let report = curve(subject, class, throughput, base.as_ref(), progress)?;
        if report.void.is_none() || lowered == subject.second_chances() {
            return Ok(Report { lowered, ..report });
        }
        lowered += 1;
        throughput *= LOWER;
        progress(&format!(
            "it did not hold: all loads once more, of {:.3} Mpps",
            throughput * 1e-6
        ));
    }
}

/// Takes all readings for a throughput and derives the figures.
fn curve(
    subject: &mut dyn Subject,
    class: Class,
    throughput: f64,
    base: Option<&Reading>,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, String> {
    let mut steps = Vec::new();
    let mut push = |name: &str, share, reading: &Reading| {
        steps.push(Step { name: name.to_owned(), share, reading: reading.clone() });
    };
    if let Some(base) = base {
        push("base", None, base);
    }
    let mut lossy = Vec::new();
    progress("idle");
    let idle = subject.bear(Load::None)?;
    push("idle", Some(0.0), &idle);
    progress("idle+");
    let keepalive = subject.bear(Load::Keepalive)?;
    push("idle+", Some(0.0), &keepalive);
    let mut curve = vec![(0.0, idle.power_watts)];
    let mut weighted = Vec::new();
    for tenths in TENTHS {
        let share = f64::from(tenths) / 10.0;
        progress(&format!("{} % of the throughput", tenths * 10));
        let reading = subject.bear(Load::Rate(throughput * share))?;
        let name = format!("{} %", tenths * 10);
        push(&name, Some(share), &reading);
        if !reading.is_borne() {
            lossy.push(name);
        }
        curve.push((share, reading.power_watts));
        let load = class.loads().into_iter().find(|load| (load.share - share).abs() < 1e-9);
        weighted.extend(load.map(|load| (load, reading.forwarded_rate_bps, reading.power_watts)));
    }
    let loads = class.loads();
    // All classes have a weight for no load.
    weighted.extend(
        loads.iter().find(|load| load.share == 0.0).map(|load| (*load, 0.0, idle.power_watts)),
    );
    progress("full load once more");
    let again = subject.bear(Load::Rate(throughput))?;
    push(AGAIN, Some(1.0), &again);
    if !again.is_borne() {
        lossy.push("full load after the others".to_owned());
    }
    let void = (!lossy.is_empty()).then(|| {
        format!(
            "packets were lost, queues grew, or the load was not offered, at {}",
            lossy.join(", ")
        )
    });
    let full = curve.last().map_or(0.0, |(_, watts)| *watts);
    Ok(Report {
        description: subject.description(),
        class,
        loads,
        throughput_pps: throughput,
        lowered: 0,
        eer_bps_per_watt: match void {
            Some(_) => None,
            None => efficiency_ratio(&weighted),
        },
        proportionality_index: proportionality(&curve),
        dynamic_range_ratio: dynamic_range(idle.power_watts, full),
        void,
        steps,
    })
}

/// Finds the highest load without loss by bisection.
fn throughput(subject: &mut dyn Subject) -> Result<f64, String> {
    let most = subject.most_pps();
    let mut passes = |rate: f64| Ok::<_, String>(subject.bear(Load::Rate(rate))?.is_borne());
    if passes(most)? {
        return Ok(most);
    }
    let (mut good, mut bad) = (0.0, most);
    while bad - good > bad * WIDTH {
        let next = if good > 0.0 { f64::midpoint(good, bad) } else { bad / 2.0 };
        if next < most * LEAST {
            return Err(format!("even {next:.0} packets a second lose some"));
        }
        if passes(next)? { good = next } else { bad = next }
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that takes 100 W, and 10 W for each million packets, up to its capacity.
    struct Linear {
        capacity: f64,
        /// Number of readings after which it becomes slower.
        tires_after: usize,
        readings: usize,
        chances: u32,
    }

    impl Subject for Linear {
        fn bear(&mut self, load: Load) -> Result<Reading, String> {
            self.readings += 1;
            let capacity =
                if self.readings > self.tires_after { self.capacity / 2.0 } else { self.capacity };
            let offered = match load {
                Load::None => 0.0,
                Load::Keepalive => 2.0,
                Load::Rate(rate) => rate,
            };
            let forwarded = offered.min(capacity);
            Ok(Reading {
                offered_rate_pps: offered,
                forwarded_rate_pps: forwarded,
                forwarded_rate_bps: forwarded * 512.0,
                lost_packets: (offered - forwarded).ceil() as u64,
                queued_packets: 0,
                is_sound: true,
                power_watts: 100.0 + forwarded / 1e5,
                source: "modelled".into(),
                accuracy: "static".into(),
                processor: None,
                state: None,
                disturbed_because: None,
            })
        }

        fn base(&mut self) -> Result<Option<Reading>, String> {
            Ok(None)
        }

        fn most_pps(&self) -> f64 {
            10e6
        }

        fn second_chances(&self) -> u32 {
            self.chances
        }

        fn description(&self) -> Description {
            Description {
                device: "a line <b>".into(),
                power_from: "a formula".into(),
                frames: "64".into(),
                ports: 2,
                stabilisation_seconds: 0.0,
                measurement_seconds: 1.0,
                time: "model".into(),
                averaging: "mean".into(),
                notes: vec!["no meter".into()],
            }
        }
    }

    fn measured(capacity: f64, tires_after: usize, class: Class) -> Report {
        let mut subject = Linear { capacity, tires_after, readings: 0, chances: 0 };
        run(&mut subject, class, &mut |_| ()).unwrap()
    }

    #[test]
    fn ratio_of_a_linear_device_follows_its_formula() {
        let report = measured(4e6, usize::MAX, Class::Access);
        let throughput = report.throughput_pps;
        assert!(throughput <= 4e6 && throughput > 3.9e6, "{throughput}");
        let watts = |share: f64| 100.0 + share * throughput / 1e5;
        let bits = (0.1 + 0.8 * 0.1) * throughput * 512.0;
        let expected = bits / (0.1 * watts(1.0) + 0.8 * watts(0.1) + 0.1 * watts(0.0));
        let found = report.eer_bps_per_watt.unwrap();
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        // A line from idle to full: half of idle power relative to full power.
        let idle_share = 100.0 / watts(1.0);
        assert!((report.proportionality_index.unwrap() - (1.0 - idle_share)).abs() < 1e-9);
        assert!((report.dynamic_range_ratio.unwrap() - (1.0 - idle_share)).abs() < 1e-9);
        assert_eq!(report.steps.len(), 13);
        let page = page(&report);
        let text = page.plain();
        assert!(text.contains("modelled") && text.contains("EER"), "{text}");
        let page = page.end();
        assert!(page.contains("a line &lt;b&gt;") && page.contains("no meter"));
        crate::looked_at("eer", &page);
    }

    /// A device with modified readings.
    struct Changed(Linear, fn(Load, Reading) -> Reading);

    impl Subject for Changed {
        fn bear(&mut self, load: Load) -> Result<Reading, String> {
            Ok(self.1(load, self.0.bear(load)?))
        }

        fn base(&mut self) -> Result<Option<Reading>, String> {
            self.0.base()
        }

        fn most_pps(&self) -> f64 {
            self.0.most_pps()
        }

        fn description(&self) -> Description {
            self.0.description()
        }
    }

    /// A device whose rings hold all packets that it does not forward.
    fn ringed(device: Linear) -> Changed {
        Changed(device, |_, reading| Reading {
            lost_packets: 0,
            queued_packets: reading.lost_packets,
            ..reading
        })
    }

    /// A device whose generator offers only a part of the requested load.
    fn unsound(device: Linear) -> Changed {
        Changed(device, |load, reading| Reading {
            is_sound: !matches!(load, Load::Rate(rate) if rate > 1e6),
            ..reading
        })
    }

    #[test]
    fn load_with_growing_queues_is_no_throughput() {
        let mut subject =
            ringed(Linear { capacity: 4e6, tires_after: usize::MAX, readings: 0, chances: 0 });
        let report = run(&mut subject, Class::Core, &mut |_| ()).unwrap();
        assert!(report.throughput_pps <= 4e6, "{}", report.throughput_pps);
        let tires_after = subject.0.readings - 1;
        let mut subject = ringed(Linear { capacity: 4e6, tires_after, readings: 0, chances: 0 });
        let report = run(&mut subject, Class::Core, &mut |_| ()).unwrap();
        assert!(report.void.unwrap().contains("queues grew"));
    }

    #[test]
    fn throughput_that_does_not_hold_is_lowered_up_to_the_bound() {
        let mut first = Linear { capacity: 4e6, tires_after: usize::MAX, readings: 0, chances: 0 };
        let found = run(&mut first, Class::Core, &mut |_| ()).unwrap();
        // The device becomes half as fast at the last reading; 0.8^4 is less than half.
        let tired = |chances| {
            let tires_after = first.readings - 1;
            let mut subject = Linear { capacity: 4e6, tires_after, readings: 0, chances };
            run(&mut subject, Class::Core, &mut |_| ()).unwrap()
        };
        let lowered = tired(4);
        assert_eq!((lowered.lowered, lowered.void.as_deref()), (4, None));
        let share = lowered.throughput_pps / found.throughput_pps;
        assert!((share - 0.4096).abs() < 1e-9, "{share}");
        assert!(lowered.eer_bps_per_watt.is_some());
        assert!(page(&lowered).end().contains("lowered by a fifth, 4 in all"));
        let too_few = tired(2);
        assert_eq!(too_few.lowered, 2);
        assert!(too_few.void.unwrap().contains("90 %"));
    }

    #[test]
    fn load_that_was_not_offered_is_no_throughput() {
        let all = Linear { capacity: 1e9, tires_after: usize::MAX, readings: 0, chances: 0 };
        let report = run(&mut unsound(all), Class::Core, &mut |_| ()).unwrap();
        assert!(report.throughput_pps <= 1e6, "{}", report.throughput_pps);
    }

    #[test]
    fn device_that_cannot_return_to_full_load_has_no_ratio() {
        let found = measured(4e6, usize::MAX, Class::Core).steps.len();
        assert_eq!(found, 13);
        // The search takes about eight readings; the last reading fails.
        let mut subject =
            Linear { capacity: 4e6, tires_after: usize::MAX, readings: 0, chances: 0 };
        run(&mut subject, Class::Core, &mut |_| ()).unwrap();
        let report = measured(4e6, subject.readings - 1, Class::Core);
        assert_eq!(report.eer_bps_per_watt, None);
        assert!(report.void.unwrap().contains("after the others"));
    }
}
