//! Energy by a server's model, for machines without a meter.

use wattline_server::BusyTimePower;
use wattline_units::{Hertz, Span, Time};

/// Model of the power that a machine would have drawn with its cores as busy as measured.
pub(super) struct Modelled {
    server: BusyTimePower,
    joules: f64,
    /// When it was looked at last, and how long each core had been busy then.
    last: Option<(Time, Vec<Span>)>,
}

impl Modelled {
    /// By this model.
    pub fn by(server: BusyTimePower) -> Self {
        Self { server, joules: 0.0, last: None }
    }

    /// In words.
    pub fn source(&self) -> String {
        format!("modelled: {}, by the measured busy time of the cores", self.server.name())
    }

    /// Counters begin anew: what passes until the next look is not counted.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Joules since the first look, all of it at this frequency since the last one.
    pub fn look(&mut self, now: Time, busy: Vec<Span>, frequency: Hertz) -> f64 {
        if let Some((then, before)) = &self.last {
            let seconds = now.since(*then).as_seconds();
            if seconds > 0.0 && before.len() == busy.len() {
                let share = |(now, then): (&Span, &Span)| (*now - *then).as_seconds() / seconds;
                let shares: Vec<f64> = busy.iter().zip(before).map(share).collect();
                self.joules += self.server.watts(frequency, &shares).0 * seconds;
            }
        }
        self.last = Some((now, busy));
        self.joules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_server::ServerFile;

    #[test]
    fn busy_time_is_turned_into_joules_between_two_looks() {
        let file = ServerFile::load("xeon-silver-4108").unwrap();
        let server = BusyTimePower::from_file(&file).unwrap();
        let frequency = Hertz(0.8e9);
        let expected = server.watts(frequency, &[0.5, 0.0]).0;
        let mut modelled = Modelled::by(server);
        assert!(modelled.source().starts_with("modelled: xeon-silver-4108"));
        let at = |seconds: u64| Time::ZERO + Span::from_millis(1_000 * seconds);
        let busy = |millis| vec![Span::from_millis(millis), Span::ZERO];
        assert_eq!(modelled.look(at(1), busy(100), frequency), 0.0);
        let joules = modelled.look(at(3), busy(1_100), frequency);
        assert!((joules - 2.0 * expected).abs() < 1e-9, "{joules}, {expected} W");
        // The machine was given back and taken again: its counters are new.
        modelled.forget();
        assert_eq!(modelled.look(at(4), busy(0), frequency), joules);
        assert!(modelled.look(at(5), busy(0), frequency) > joules);
    }
}
