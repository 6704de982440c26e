//! Builds a source from its description.

use super::kinds::{Common, Kind, MOST_CHANGES_PER_PACKET};
use super::{Mistake, Part, Spec, SpecError};
use crate::capture::CaptureError;
use crate::rates::{self, RatesError};
use crate::source::{
    Constant, Content, DayProfile, Links, Mix, Mmpp, Modulated, OnOff, Poisson, Replay,
    SelfSimilar, Silent, Source, Steps, TrainShape, Trains, Wave,
};

/// Reasons why a source cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A capture cannot be used.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A file of rates cannot be used.
    #[error(transparent)]
    Rates(#[from] RatesError),
    /// The description does not fit the file.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

impl Spec {
    /// Opens all captures and starts at time zero. The same seed gives the same packets; a `seed`
    /// in the description takes precedence.
    ///
    /// # Errors
    /// Fails when a capture cannot be used, or when its packets at this rate exceed the links.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Source>, BuildError> {
        let mut sources = Vec::new();
        for (index, part) in self.parts.iter().enumerate() {
            // Parts of one mix must not be synchronised.
            let own = seed.wrapping_add((index as u64).wrapping_mul(0x5851_f42d_4c95_7f2d));
            part.build(part.common.seed.unwrap_or(own), &mut sources)?;
        }
        Ok(match <[Box<dyn Source>; 1]>::try_from(sources) {
            Ok([only]) => only,
            Err(several) => Box::new(Mix::new(several)),
        })
    }
}

impl Part {
    fn build(&self, seed: u64, out: &mut Vec<Box<dyn Source>>) -> Result<(), BuildError> {
        let common = &self.common;
        let links = common.links;
        let content = Content::new(
            common.size.load()?,
            common.flows,
            links.ports,
            common.popularity,
            common.spread,
            seed,
        );
        let mean = content.mean_bytes();
        let most = links.packets_per_second(mean);
        if let Some(rate) = self.kind.rate().filter(|_| !matches!(self.kind, Kind::Capture { .. }))
        {
            self.check(rate.packets_per_second(mean), most, mean)?;
        }
        if self.kind.rate().is_some_and(|rate| rate.packets_per_second(mean) == 0.0) {
            out.push(Box::new(Silent));
            return Ok(());
        }
        if common.trains.mean > 1 {
            let mut heads = Vec::new();
            self.heads().build(seed, &mut heads)?;
            let trains =
                |heads| Box::new(Trains::new(heads, common.trains, links, &content, seed)) as _;
            out.extend(heads.into_iter().map(trains));
            return Ok(());
        }
        out.push(match self.kind {
            Kind::Constant { rate } => Box::new(Constant::new(rate, content)),
            Kind::Poisson { rate } => Box::new(Poisson::new(rate, content, seed)),
            Kind::Mmpp { rate, ratio, high, low } => {
                let rate = rate.packets_per_second(mean);
                let (high, low) = (high.as_seconds(), low.as_seconds());
                let modulator = Mmpp::new(rate, ratio, high, low, seed);
                Box::new(Modulated::new(modulator, content, seed))
            }
            Kind::SelfSimilar { rate, hurst, sources, shortest, longest } => {
                let modulator = SelfSimilar::new(
                    rate.packets_per_second(mean),
                    hurst,
                    sources,
                    shortest.as_seconds(),
                    longest.as_seconds(),
                    seed,
                );
                Box::new(Modulated::new(modulator, content, seed))
            }
            Kind::OnOff { rate, burst } => Box::new(OnOff::new(rate, burst, links, &content, seed)),
            Kind::Day { rate, duration, spikes } => {
                let rate = rate.packets_per_second(mean);
                let modulator = DayProfile::new(rate, most, duration.as_seconds(), spikes, seed);
                Box::new(Modulated::new(modulator, content, seed))
            }
            Kind::Wave { rate, shape, ratio, period, share, rise } => {
                let rate = rate.packets_per_second(mean);
                let (period, rise) = (period.as_seconds(), rise.as_seconds());
                let modulator = Wave::new(shape, rate, ratio, period, share, rise);
                Box::new(Modulated::new(modulator, content, seed))
            }
            Kind::Rates { ref file, scale } => match Steps::new(rates::load(file)?, scale) {
                None => Box::new(Silent),
                Some(steps) => {
                    self.check(steps.peak(), most, mean)?;
                    let changes = steps.changes_per_packet() * f64::from(common.trains.mean);
                    if changes > MOST_CHANGES_PER_PACKET {
                        return Err(self.mistake(format!(
                            "the rate changes {changes:.0} times for each packet; allowed: at most \
                             {MOST_CHANGES_PER_PACKET:.0} times (keys file, scale)"
                        )));
                    }
                    Box::new(Modulated::new(steps, content, seed))
                }
            },
            Kind::Capture { ref file, rate, copies, repeat } => {
                let trace = file.read()?;
                let mean = trace.mean_bytes();
                let total = rate.map_or(f64::from(copies) * trace.packets_per_second(), |rate| {
                    rate.packets_per_second(mean)
                });
                self.check(total, links.packets_per_second(mean), mean)?;
                let each = rate.map(|_| crate::source::Rate::Packets(total / f64::from(copies)));
                let replay = || Replay::new(&trace, each, repeat, links);
                if copies > 1 {
                    out.extend(
                        (0..copies).map(|n| Box::new(replay().copy(n, seed)) as Box<dyn Source>),
                    );
                    return Ok(());
                }
                Box::new(replay())
            }
        });
        Ok(())
    }

    /// Source of the trains' first packets, as on links with a part of the rate.
    fn heads(&self) -> Self {
        let share = 1.0 / f64::from(self.common.trains.mean);
        let links = self.common.links;
        let links = Links { bits_per_second: links.bits_per_second * share, ..links };
        let common = Common { links, trains: TrainShape::NONE, ..self.common.clone() };
        Self { kind: self.kind.times(share), common, ..self.clone() }
    }

    fn check(&self, rate: f64, most: f64, mean: f64) -> Result<(), BuildError> {
        if rate <= most * (1.0 + 1e-9) {
            return Ok(());
        }
        let problem = format!(
            "{:.3} Mpps of {mean:.0} bytes exceed the links; allowed: up to {:.3} Mpps \
             (keys ports, link, overhead)",
            rate / 1e6,
            most / 1e6
        );
        Err(self.mistake(problem))
    }

    fn mistake(&self, problem: String) -> BuildError {
        let mistakes = vec![Mistake { place: format!("{}: rate", self.name), problem }];
        SpecError { mistakes }.into()
    }
}
