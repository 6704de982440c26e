//! Workers that are not started, since they would have no queue on some port: a worker sends by its
//! own queues, so it needs one of every port. If a card has fewer queues than the configuration has
//! workers, the router forwards with fewer workers, and reports it.

use super::channels;
use super::queues::receive_queues;
use crate::config::{Config, PortKind, PowerPlatform};

/// Wanted and started number of workers, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Surplus {
    wanted: u16,
    started: u16,
    /// The port with the fewest queues, and the remedy.
    pub because: String,
}

impl Surplus {
    /// Reduces the workers in the configuration to the smallest number of queues of a port.
    /// Emulated cores are kept: they are the purpose of an emulation.
    pub fn take_from(config: &mut Config) -> Option<Self> {
        if config.power.platform == PowerPlatform::Scale {
            return None;
        }
        let all_are_captures = config.captures_only();
        let of_ports = config.ports.iter().filter_map(|port| match &port.kind {
            PortKind::Interface(name) => {
                // Interfaces without queues, or with unknown queues, are reported in detail later.
                let queues = receive_queues(name).ok().filter(|queues| *queues > 0)?;
                let remedy = channels::remedy(name, config.router.workers.into());
                Some((queues, format!("{name} has {queues} queue(s)"), remedy))
            }
            PortKind::Capture { .. } if !all_are_captures => {
                let what = format!("port {} is a capture, which has one queue", port.name);
                Some((1, what, "no captures with other ports".to_owned()))
            }
            PortKind::Capture { .. } | PortKind::Vacant => None,
        });
        let (queues, what, remedy) = of_ports.min_by_key(|(queues, ..)| *queues)?;
        let wanted = config.router.workers;
        let started = u16::try_from(queues).ok().filter(|queues| *queues < wanted)?;
        let because = format!(
            "{what}, and each worker needs one of every port: {started} of [router] workers = \
             {wanted} are started; for more, {remedy} and a restart"
        );
        let surplus = Self { wanted, started, because };
        surplus.leave_out(config);
        Some(surplus)
    }

    /// Removes the same workers from a configuration that has as many as the first.
    pub fn leave_out(&self, config: &mut Config) {
        if config.router.workers == self.wanted {
            config.router.workers = self.started;
            config.router.cpus.truncate(self.started.into());
        }
    }

    /// Returns the number of workers that are not started.
    pub fn count(&self) -> u16 {
        self.wanted - self.started
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loopback interface has one queue on every machine.
    const BOTH: &str = "[router]\nworkers = 3\ncpus = [4, 5, 6]\n[[port]]\nname = \"a\"\ninterface = \"lo\"\n\
                        [[port]]\nname = \"b\"\ninterface = \"no-such-one\"\n";

    #[test]
    fn workers_are_reduced_to_the_queues_of_each_port() {
        let asked = Config::parse(BOTH, "test").unwrap();
        let mut config = asked.clone();
        let surplus = Surplus::take_from(&mut config).unwrap();
        assert_eq!((config.router.workers, &config.router.cpus[..]), (1, &[4][..]));
        assert_eq!(surplus.count(), 2);
        for word in ["lo has 1 queue", "1 of [router] workers = 3", "lo does not change"] {
            assert!(surplus.because.contains(word), "{word} in: {}", surplus.because);
        }
        // The same file, read again, gives the same result.
        let mut again = asked.clone();
        surplus.leave_out(&mut again);
        assert_eq!(again.router, config.router);
        // Another number needs a restart, as always.
        let two = BOTH.replace("workers = 3\ncpus = [4, 5, 6]", "workers = 2");
        let mut two = Config::parse(&two, "test").unwrap();
        surplus.leave_out(&mut two);
        assert_eq!(two.router.workers, 2);
        assert_eq!(Surplus::take_from(&mut config), None, "enough is enough");
    }

    #[test]
    fn captures_and_interfaces_leave_one_worker_and_emulated_cores_are_kept() {
        let capture = "[[port]]\nname = \"c\"\ncapture = { read = \"x\" }\n";
        let mixed = BOTH.replace("\"lo\"", "\"none\"") + capture;
        let mut config = Config::parse(&mixed, "test").unwrap();
        let surplus = Surplus::take_from(&mut config).unwrap();
        assert_eq!(config.router.workers, 1);
        assert!(surplus.because.contains("port c is a capture"), "{}", surplus.because);
        let alone = format!("[router]\nworkers = 3\n{capture}");
        assert_eq!(Surplus::take_from(&mut Config::parse(&alone, "test").unwrap()), None);
        let emulated = BOTH.to_owned() + "[power]\nplatform = \"scale\"\n";
        assert_eq!(Surplus::take_from(&mut Config::parse(&emulated, "test").unwrap()), None);
    }
}
