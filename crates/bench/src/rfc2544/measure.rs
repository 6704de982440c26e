//! All figures of one frame length.

use super::back_to_back::{BackToBack, longest};
use super::device::Bed;
use super::options::Options;
use super::report::{LatencyAt, LossAt, OfLength};
use super::search::{Found, Trial, search};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::packets::limits::Limits;
use wattline_testbed::packets::{Load, Outcome, Sizes, WIRE_OVERHEAD};

/// The lowest load that is tried, as a share of the generator's limit.
const LEAST: f64 = 1e-3;
/// Loads at which latency is measured, as shares of the throughput.
const LATENCY_AT: [f64; 3] = [1.0, 0.5, 0.1];
/// The shortest burst of the search, in frames.
const BURST_MIN: u64 = 16;
/// The longest lasts so long (section 26.4).
const BURST_SECONDS: f64 = 2.0;

pub(super) struct Measure<'a> {
    pub bed: &'a mut Bed,
    pub options: &'a Options,
    pub sizes: &'a Sizes,
    pub stop: &'a AtomicBool,
}

/// Frames of a length or mix at a rate, as the options want them.
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
    /// All figures, below the generator's limits.
    pub fn all(&mut self, limits: Limits, tell: &mut dyn FnMut(&str)) -> Result<OfLength, Error> {
        let name = self.sizes.name().to_owned();
        let most = limits.lossless_rate_pps;
        if most <= 0.0 {
            return Err(limits.too_busy(&name));
        }
        tell(&format!("{name}: limits {:.3} Mpps; searching the throughput", most / 1e6));
        let throughput = self.throughput(most)?;
        tell(&format!("{name}: latency"));
        let latency = self.latency(&throughput)?;
        tell(&format!("{name}: frame loss"));
        let frame_loss = self.frame_loss(most)?;
        tell(&format!("{name}: back-to-back frames"));
        let back_to_back = self.back_to_back(&limits, &throughput)?;
        let wire_bits = (self.sizes.mean() + f64::from(WIRE_OVERHEAD)) * 8.0;
        Ok(OfLength {
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

    fn throughput(&mut self, most: f64) -> Result<Found, Error> {
        let goal = self.options.goal;
        search(&goal, (most * LEAST, most), |load_pps, duration| {
            let outcome = self.trial(&self.load(load_pps, duration))?;
            Ok(Trial {
                load_pps,
                duration_seconds: duration.as_secs_f64(),
                loss_ratio: outcome.loss_ratio,
                forwarding_rate_pps: outcome.received_rate_pps,
                is_sound: outcome.is_sound(),
            })
        })
    }

    fn latency(&mut self, throughput: &Found) -> Result<Vec<LatencyAt>, Error> {
        let Some(throughput) = throughput.conditional_throughput_pps else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for share in LATENCY_AT {
            let outcome = self.trial(&self.load(throughput * share, self.options.latency))?;
            found.push(LatencyAt {
                share,
                load_pps: outcome.sent_rate_pps,
                loss_ratio: outcome.loss_ratio,
                is_sound: outcome.is_sound(),
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
            let outcome = self.trial(&load)?;
            found.push(LossAt {
                share,
                load_pps: outcome.sent_rate_pps,
                loss_ratio: outcome.loss_ratio,
                forwarding_rate_pps: outcome.received_rate_pps,
                reordered_packets: outcome.reordered_packets,
                duplicated_packets: outcome.duplicated_packets,
                is_sound: outcome.is_sound(),
            });
            let last_two = found.len().checked_sub(2).map(|from| &found[from..]);
            if last_two.is_some_and(|two| two.iter().all(|at| at.loss_ratio == 0.0)) {
                break;
            }
        }
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
                let outcome = self.trial(&load)?;
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
        // A burst that is slower than what the device forwards says nothing of its buffers.
        let throughput = throughput.conditional_throughput_pps;
        if each.is_empty() || throughput.is_some_and(|throughput| throughput >= rate) {
            return Ok(None);
        }
        Ok(Some(BackToBack::new(each, rate, throughput, at_most)))
    }
}
