//! A forwarder between namespaces of this machine as a subject: real packets, their measured
//! processor time, and the power of a server model for that time.
//!
//! A meter of this machine cannot be used: it also sees the generator, which takes more power than
//! the device.

use super::reading::{Processor, Reading};
use super::subject::{Description, Load, Subject};
use crate::device::{Bed, Device};
use crate::forward::threads::{Thread, UNCHARGED};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wattline_server::{BusyTimePower, ServerModel};
use wattline_testbed::Error;
use wattline_testbed::namespace::check_rights;
use wattline_testbed::packets::{self, FCS, Outcome, Sizes};
use wattline_units::{Accuracy, Hertz, Source};

/// Flows of the load.
const FLOWS: u32 = 64;
/// Repetitions of a reading in which the generator missed its rate.
const REPEATS: u32 = 2;
/// Permitted reductions of a throughput at which packets are lost later.
const CHANCES: u32 = 4;
/// Wait for the last packets.
const DRAIN: Duration = Duration::from_millis(100);

/// Options of a measurement of a forwarder.
#[derive(Debug, Clone)]
pub struct ForwarderOptions {
    /// The device; not [`Device::Ports`].
    pub device: Device,
    /// Lengths of frames.
    pub sizes: Sizes,
    /// Server whose power model is used.
    pub server: ServerModel,
    /// Time before each reading.
    pub stabilisation: Duration,
    /// Duration of each reading.
    pub measurement: Duration,
}

/// A running forwarder.
pub struct Forwarder {
    options: ForwarderOptions,
    bed: Bed,
    threads: Vec<Thread>,
    most_pps: f64,
    power: BusyTimePower,
    frequency: Hertz,
    cores: usize,
}

impl Forwarder {
    /// Sets up the forwarder, and measures the limits of the generator.
    ///
    /// # Errors
    /// Fails without root, on a machine with one processor, or if the generator holds no rate.
    pub fn start(options: ForwarderOptions) -> Result<Self, Error> {
        check_rights("`bench eer --device`")?;
        let bed = Bed::build(&options.device)?;
        let (bed, limits) = bed.limits(&load(&options, 1.0, options.measurement))?;
        if limits.lossless_rate_pps <= 0.0 {
            return Err(limits.too_busy(options.sizes.name()));
        }
        let processor = &options.server.processor;
        Ok(Self {
            threads: bed.threads()?,
            bed,
            most_pps: limits.lossless_rate_pps,
            frequency: processor.highest_frequency(),
            cores: processor.cores(),
            power: BusyTimePower::Whole(Box::new(options.server.clone())),
            options,
        })
    }

    fn processor_time(&self) -> Duration {
        self.threads.iter().map(|thread| thread.cpu_time()).sum()
    }

    /// Offers a load, or none, for `duration` and returns its outcome.
    fn offer(
        &mut self,
        rate_pps: Option<f64>,
        duration: Duration,
    ) -> Result<Option<Outcome>, String> {
        let Some(rate_pps) = rate_pps else {
            std::thread::sleep(duration);
            return Ok(None);
        };
        let placement = self.bed.placement();
        let load = load(&self.options, rate_pps, duration);
        let never = AtomicBool::new(false);
        let Bed { tester, addresses, .. } = &mut self.bed;
        let outcome = tester.trial(addresses, &load, &placement, &never, &mut |_| ());
        outcome.map(Some).map_err(|error| error.to_string())
    }

    fn read(&mut self, rate_pps: Option<f64>) -> Result<Reading, String> {
        let measurement = self.options.measurement;
        self.offer(rate_pps, self.options.stabilisation)?;
        let before = self.processor_time();
        let outcome = self.offer(rate_pps, measurement)?;
        let used = self.processor_time().saturating_sub(before);
        if used.is_zero() && outcome.as_ref().is_some_and(|outcome| outcome.received_packets > 0) {
            return Err(UNCHARGED.to_owned());
        }
        // A thread that never sleeps also uses time during the wait for the last packets.
        let ratio = (used.as_secs_f64() / measurement.as_secs_f64()).min(1.0);
        let mut busy = vec![0.0; self.cores];
        busy[0] = ratio;
        let received = outcome.as_ref().map_or(0.0, |outcome| outcome.received_rate_pps);
        let bits = (self.options.sizes.mean() - f64::from(FCS)) * 8.0;
        Ok(Reading {
            offered_rate_pps: outcome.as_ref().map_or(0.0, |outcome| outcome.sent_rate_pps),
            forwarded_rate_pps: received,
            forwarded_rate_bps: received * bits,
            lost_packets: outcome.as_ref().map_or(0, |outcome| outcome.lost_packets),
            // Packets in flight at the end of the load have been waited for.
            queued_packets: 0,
            is_sound: outcome.as_ref().is_none_or(Outcome::is_sound),
            power_watts: self.power.watts(self.frequency, &busy).get(),
            source: Source::Modelled.to_string(),
            accuracy: Accuracy::Static.to_string(),
            state: None,
            processor: Some(Processor {
                busy_ratio: ratio,
                seconds_per_packet: outcome
                    .as_ref()
                    .filter(|outcome| outcome.received_packets > 0)
                    .map(|outcome| used.as_secs_f64() / outcome.received_packets as f64),
            }),
            disturbed_because: outcome.and_then(|outcome| outcome.soundness().unsound_reason()),
        })
    }
}

fn load(options: &ForwarderOptions, rate_pps: f64, duration: Duration) -> packets::Load {
    packets::Load {
        rate_pps,
        duration,
        sizes: options.sizes.clone(),
        flows: FLOWS,
        drain: DRAIN,
        ..packets::Load::default()
    }
}

impl Subject for Forwarder {
    fn bear(&mut self, load: Load) -> Result<Reading, String> {
        let rate_pps = match load {
            Load::None => None,
            // One packet at the beginning of a reading, and one in its middle.
            Load::Keepalive => Some(2.0 / self.options.measurement.as_secs_f64()),
            Load::Rate(rate_pps) => Some(rate_pps),
        };
        let mut reading = self.read(rate_pps)?;
        for _ in 0..REPEATS {
            if reading.disturbed_because.is_none() {
                break;
            }
            reading = self.read(rate_pps)?;
        }
        Ok(reading)
    }

    fn base(&mut self) -> Result<Option<Reading>, String> {
        Ok(None)
    }

    fn most_pps(&self) -> f64 {
        self.most_pps
    }

    fn second_chances(&self) -> u32 {
        CHANCES
    }

    fn description(&self) -> Description {
        let conditions = &self.bed.conditions;
        Description {
            device: conditions.device_words.clone(),
            power_from: format!("modelled on {}, from measured processor time", self.power.name()),
            frames: format!("{}, with check sequence", self.options.sizes.name()),
            ports: 2,
            stabilisation_seconds: self.options.stabilisation.as_secs_f64(),
            measurement_seconds: self.options.measurement.as_secs_f64(),
            time: "real".into(),
            averaging: "processor time over time".into(),
            notes: vec![
                format!(
                    "no meter: one core of the model is awake at {:.2} GHz while the device's threads \
                     have a processor of this machine (measured); its other {} cores sleep. Both \
                     machines are assumed to need the same time per packet",
                    self.frequency.get() / 1e9,
                    self.cores - 1
                ),
                "no base: the model has no figure for the server without its ports".to_owned(),
                format!(
                    "the generator's limit is {:.3} Mpps: higher throughputs cannot be found",
                    self.most_pps / 1e6
                ),
                format!("{}; {}; {}", conditions.links, conditions.ways, conditions.placement),
                "one direction; shares of the throughput of the same frame lengths at every load"
                    .to_owned(),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Class, page, run};
    use super::*;
    use wattline_server::ServerFile;
    use wattline_testbed::leftovers::can_build_namespaces;

    #[test]
    fn power_of_a_forwarder_follows_its_processor_time() {
        if !can_build_namespaces("power_of_a_forwarder_follows_its_processor_time")
            || std::thread::available_parallelism().map_or(1, usize::from) < 2
        {
            return wattline_needs::machine("root and two processors");
        }
        let server = ServerFile::load("westmere-2010").unwrap().model().unwrap().clone();
        let options = ForwarderOptions {
            device: Device::Workers,
            sizes: Sizes::fixed(64),
            server,
            stabilisation: Duration::from_millis(10),
            measurement: Duration::from_millis(60),
        };
        // On a busy machine, the generator may not be able to send for a while.
        let mut forwarder = match Forwarder::start(options) {
            Ok(forwarder) => forwarder,
            Err(error @ Error::Generator { .. }) => return wattline_needs::machine(&error),
            Err(error) => panic!("{error}"),
        };
        let report = match run(&mut forwarder, Class::Core, &mut |_| ()) {
            Ok(report) => report,
            Err(error) if error.contains("lose some") => return wattline_needs::machine(&error),
            Err(error) => panic!("{error}"),
        };
        let of = |name: &str| &report.steps.iter().find(|step| step.name == name).unwrap().reading;
        let (idle, full) = (of("idle"), of("100 %"));
        let busy = |reading: &Reading| reading.processor.unwrap().busy_ratio;
        assert!(busy(idle) < 0.1 && busy(full) > busy(idle), "{report:?}");
        assert!(full.power_watts > idle.power_watts, "{report:?}");
        assert!(full.processor.unwrap().seconds_per_packet > Some(0.0), "{full:?}");
        assert!(report.steps.iter().all(|step| step.reading.source == "modelled"));
        assert_eq!(report.eer_bps_per_watt.is_some(), report.void.is_none());
        assert!(page(&report).end().contains("from measured processor time"));
    }
}
