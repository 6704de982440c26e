//! Energy by a server model, for machines without a meter.

use wattline_server::BusyTimePower;
use wattline_units::{Hertz, Span, Time};

/// Energy counter of a power model that is fed with the measured busy time of the cores.
pub(super) struct Modelled {
    server: BusyTimePower,
    joules: f64,
    /// Time of the last update, and the busy time of each core then.
    last: Option<(Time, Vec<Span>)>,
}

impl Modelled {
    /// Creates an energy counter at zero.
    pub fn new(server: BusyTimePower) -> Self {
        Self { server, joules: 0.0, last: None }
    }

    /// Describes the source for users.
    pub fn source(&self) -> String {
        format!("modelled: {}, by the measured busy time of the cores", self.server.name())
    }

    /// Leaves out the time until the next update: the busy times begin at zero again.
    pub fn restart(&mut self) {
        self.last = None;
    }

    /// Returns the joules since the first update. Between the last update and this one, all cores
    /// ran at `frequency`.
    pub fn update(&mut self, now: Time, busy: Vec<Span>, frequency: Hertz) -> f64 {
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
    fn busy_time_between_updates_becomes_joules() {
        let file = ServerFile::load("xeon-silver-4108").unwrap();
        let server = BusyTimePower::from_file(&file).unwrap();
        let frequency = Hertz(0.8e9);
        let expected = server.watts(frequency, &[0.5, 0.0]).0;
        let mut modelled = Modelled::new(server);
        assert!(modelled.source().starts_with("modelled: xeon-silver-4108"));
        let at = |seconds: u64| Time::ZERO + Span::from_millis(1_000 * seconds);
        let busy = |millis| vec![Span::from_millis(millis), Span::ZERO];
        assert_eq!(modelled.update(at(1), busy(100), frequency), 0.0);
        let joules = modelled.update(at(3), busy(1_100), frequency);
        assert!((joules - 2.0 * expected).abs() < 1e-9, "{joules}, {expected} W");
        // The machine was given back and taken over anew, so its counters begin at zero.
        modelled.restart();
        assert_eq!(modelled.update(at(4), busy(0), frequency), joules);
        assert!(modelled.update(at(5), busy(0), frequency) > joules);
    }
}
