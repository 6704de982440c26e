//! Measures all figures of one frame length.

use super::back_to_back::{BackToBack, longest};
use super::options::Options;
use super::report::{LatencyAt, LengthResults, LossAt};
use super::search::{Found, REPEATS, Trial, search};
use crate::device::Bed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::packets::limits::Limits;
use wattline_testbed::packets::{Load, Outcome, Sizes, WIRE_OVERHEAD};

/// Lowest load of the search, as a share of the generator's limit.
const LEAST: f64 = 1e-3;
/// Loads at which latency is measured, as shares of the throughput.
const LATENCY_AT: [f64; 3] = [1.0, 0.5, 0.1];
/// Shortest burst of the search, in frames.
const BURST_MIN: u64 = 16;
/// Duration of the longest burst (section 26.4).
const BURST_SECONDS: f64 = 2.0;

pub(super) struct Measure<'a> {
    pub bed: &'a mut Bed,
    pub options: &'a Options,
    pub sizes: &'a Sizes,
    pub stop: &'a AtomicBool,
}

/// Returns a load of frames of a length or mix at a rate, according to the options.
pub(super) fn load(options: &Options, sizes: &Sizes, rate_pps: f64, duration: Duration) -> Load {
    Load {
        rate_pps,
        duration,
        sizes: sizes.clone(),
        flows: options.flows,
        drain: options.drain,
        ..Load::default()
    }
}

impl Measure<'_> {
    /// Measures all figures, below the generator's limits.
    pub fn all(
        &mut self,
        limits: Limits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<LengthResults, Error> {
        let name = self.sizes.name().to_owned();
        let most = limits.lossless_rate_pps;
        if most <= 0.0 {
            return Err(limits.too_busy(&name));
        }
        progress(&format!("{name}: limits {:.3} Mpps; searching the throughput", most / 1e6));
        let throughput = self.throughput(most)?;
        progress(&format!("{name}: latency"));
        let latency = self.latency(&throughput)?;
        progress(&format!("{name}: frame loss"));
        let frame_loss = self.frame_loss(most)?;
        progress(&format!("{name}: back-to-back frames"));
        let back_to_back = self.back_to_back(&limits, &throughput)?;
        let wire_bits = (self.sizes.mean() + f64::from(WIRE_OVERHEAD)) * 8.0;
        Ok(LengthResults {
            frames: name,
            frame_mean_bytes: self.sizes.mean(),
            throughput_wire_bps: throughput.conditional_throughput_pps.map(|pps| pps * wire_bits),
            limits,
            throughput,
            latency,
            frame_loss,
            back_to_back,
        })
    }

    fn load(&self, rate_pps: f64, duration: Duration) -> Load {
        load(self.options, self.sizes, rate_pps, duration)
    }

    fn trial(&mut self, load: &Load) -> Result<Outcome, Error> {
        let placement = self.bed.placement();
        let Bed { tester, addresses, .. } = &mut *self.bed;
        tester.trial(addresses, load, &placement, self.stop, &mut |_| ())
    }

    /// Runs a trial, repeating it if the generator failed; returns the last attempt.
    fn repeated(&mut self, load: &Load) -> Result<Outcome, Error> {
        let mut outcome = self.trial(load)?;
        for _ in 0..REPEATS {
            if outcome.is_sound() || self.stop.load(Ordering::Relaxed) {
                break;
            }
            outcome = self.trial(load)?;
        }
        Ok(outcome)
    }

    fn throughput(&mut self, most: f64) -> Result<Found, Error> {
        let goal = self.options.goal;
        search(&goal, (most * LEAST, most), |load_pps, duration| {
            let outcome = self.trial(&self.load(load_pps, duration))?;
            Ok(Trial {
                load_pps,
                duration_seconds: duration.as_secs_f64(),
                loss_ratio: outcome.loss_ratio,
                forwarding_rate_pps: outcome.received_rate_pps,
                soundness: outcome.soundness(),
            })
        })
    }

    fn latency(&mut self, throughput: &Found) -> Result<Vec<LatencyAt>, Error> {
        let Some(throughput) = throughput.conditional_throughput_pps else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for share in LATENCY_AT {
            let outcome = self.repeated(&self.load(throughput * share, self.options.latency))?;
            found.push(LatencyAt {
                share,
                load_pps: outcome.sent_rate_pps,
                loss_ratio: outcome.loss_ratio,
                soundness: outcome.soundness(),
                latency: outcome.latency,
                curve: outcome.latency_curve,
            });
        }
        Ok(found)
    }

    fn frame_loss(&mut self, most: f64) -> Result<Vec<LossAt>, Error> {
        let mut found: Vec<LossAt> = Vec::new();
        for tenths in (1..=10).rev() {
            let share = f64::from(tenths) / 10.0;
            let load = self.load(most * share, self.options.goal.final_trial);
            let outcome = self.repeated(&load)?;
            found.push(LossAt {
                share,
                load_pps: outcome.sent_rate_pps,
                loss_ratio: outcome.loss_ratio,
                forwarding_rate_pps: outcome.received_rate_pps,
                reordered_packets: outcome.reordered_packets,
                duplicated_packets: outcome.duplicated_packets,
                soundness: outcome.soundness(),
            });
            let last_two = found.len().checked_sub(2).map(|from| &found[from..]);
            if last_two.is_some_and(|two| two.iter().all(LossAt::is_lossless)) {
                break;
            }
        }
        highest_first(&mut found);
        Ok(found)
    }

    fn back_to_back(
        &mut self,
        limits: &Limits,
        throughput: &Found,
    ) -> Result<Option<BackToBack>, Error> {
        let most = ((limits.flat_out_rate_pps * BURST_SECONDS) as u64).max(BURST_MIN);
        let mut each = Vec::new();
        let (mut rate_sum, mut rates, mut at_most) = (0.0, 0, true);
        for _ in 0..self.options.bursts {
            let found = longest(BURST_MIN, most, |frames| {
                let mut load = self.load(f64::INFINITY, Duration::from_secs(5));
                load.burst = Some(frames);
                let outcome = self.repeated(&load)?;
                if outcome.sent_rate_pps.is_normal() && frames > 4 * BURST_MIN {
                    rate_sum += outcome.sent_rate_pps;
                    rates += 1;
                }
                Ok::<_, Error>(outcome.lost_packets == 0 && outcome.is_sound())
            })?;
            at_most &= found == Some(most);
            each.push(found.unwrap_or(0));
        }
        let rate = if rates > 0 { rate_sum / f64::from(rates) } else { limits.flat_out_rate_pps };
        // A burst that is slower than the device forwards says nothing about its buffers.
        let throughput = throughput.conditional_throughput_pps;
        if each.is_empty() || throughput.is_some_and(|throughput| throughput >= rate) {
            return Ok(None);
        }
        Ok(Some(BackToBack::new(each, rate, throughput, at_most)))
    }
}

/// Orders losses by sent rate, the highest first. Sent rates may differ from requested ones, so a
/// line in the order of requests could go back and forth.
fn highest_first(found: &mut [LossAt]) {
    found.sort_by(|a, b| b.load_pps.total_cmp(&a.load_pps));
}

#[cfg(test)]
mod tests {
    use super::super::page::{length_section, mostly_unsound};
    use super::*;
    use wattline_report::FigurePage;
    use wattline_testbed::packets::{Latency, Soundness};

    const SOUND: Soundness = Soundness { due_packets: 9, unsent_packets: 0, overflow_packets: 0 };

    fn loss(share: f64, load_pps: f64, soundness: Soundness) -> LossAt {
        LossAt {
            share,
            load_pps,
            loss_ratio: share / 10.0,
            forwarding_rate_pps: load_pps,
            reordered_packets: 0,
            duplicated_packets: 0,
            soundness,
        }
    }

    /// Returns the results of a generator that other programs kept from sending at the highest
    /// load.
    fn disturbed() -> LengthResults {
        let short = Soundness { unsent_packets: 4, ..SOUND };
        let full = Soundness { overflow_packets: 7, ..SOUND };
        let mut frame_loss =
            vec![loss(1.0, 5e5, short), loss(0.9, 9e5, SOUND), loss(0.8, 8e5, SOUND)];
        highest_first(&mut frame_loss);
        let trial = |soundness| Trial {
            load_pps: 7e5,
            duration_seconds: 1.0,
            loss_ratio: 0.0,
            forwarding_rate_pps: 7e5,
            soundness,
        };
        LengthResults {
            frames: "64".into(),
            frame_mean_bytes: 64.0,
            limits: Limits {
                link: "a link".into(),
                ways: "ways".into(),
                flat_out_rate_pps: 1e6,
                flat_out_received_rate_pps: 1e6,
                lossless_rate_pps: 1e6,
                latency: Latency::default(),
                sender_cpu_seconds_per_packet: None,
                receiver_cpu_seconds_per_packet: None,
                own: Default::default(),
                unsent_share: 0.0,
                receiver_stall_max_seconds: 0.0,
                receiver_ring_packets: 0,
            },
            throughput: Found {
                lower_bound_pps: Some(7e5),
                upper_bound_pps: None,
                conditional_throughput_pps: Some(7e5),
                limited_by_generator: true,
                trials: vec![trial(SOUND), trial(full)],
            },
            throughput_wire_bps: None,
            latency: vec![LatencyAt {
                share: 1.0,
                load_pps: 6e5,
                loss_ratio: 0.0,
                latency: Latency::default(),
                curve: Vec::new(),
                soundness: short,
            }],
            frame_loss,
            back_to_back: None,
        }
    }

    #[test]
    fn losses_are_ordered_by_sent_load() {
        let found = disturbed().frame_loss;
        let loads: Vec<_> = found.iter().map(|at| at.load_pps).collect();
        assert_eq!(loads, [9e5, 8e5, 5e5]);
    }

    #[test]
    fn throughput_of_mostly_unsound_trials_has_a_warning() {
        let mut length = disturbed();
        assert_eq!(mostly_unsound(&length), None, "one of two");
        length.throughput.trials.remove(0);
        let said = mostly_unsound(&length).unwrap();
        assert!(said.contains("failed in 1 of 1 trials"), "{said}");
    }

    /// In text, JSON and page; unsound points are not part of the device's line.
    #[test]
    fn unsound_trial_has_a_reason() {
        const SHORT: &str = "the generator sent 55.55 % of what was due";
        const FULL: &str = "its receiver had no room for 7 packets";
        let length = disturbed();
        let mut page = FigurePage::begin("", "");
        length_section(&mut page, &length);
        let text = page.plain().to_owned();
        let page = page.end();
        let json = serde_json::to_value(&length).unwrap();
        assert_eq!(json["frame_loss"][2]["unsound_because"], SHORT);
        assert_eq!(json["latency"][0]["unsound_because"], SHORT);
        assert_eq!(json["throughput"]["trials"][1]["unsound_because"], FULL);
        assert_eq!(json["frame_loss"][0]["is_sound"], true);
        assert_eq!(text.matches(SHORT).count(), 2, "{text}");
        assert!(text.contains("1 of 2 trials of the search") && text.contains(FULL), "{text}");
        assert_eq!(page.matches(&format!("no: {SHORT}")).count(), 2, "{page}");
        assert!(page.contains(&format!("no: {FULL}")), "{page}");
        let line = page.split("data-name=\"loss\" data-at=\"").nth(1).unwrap();
        let line = line.split('"').next().unwrap();
        assert_eq!(line.split(' ').count(), 2, "{line}");
        assert!(page.contains("data-name=\"not sound\""), "{page}");
    }
}
