//! A look-up table from measured rate to operating point.

use super::oracle::{LOAD, take_step};
use wattline_policy::tables::read_server;
use wattline_policy::{
    AskAgain, BuildContext, Envelope, Kind, Observation, OperatingPoint, Parameter, Parameters,
    Policy, PolicyInfo, Trigger, Wait,
};
use wattline_server::Application;
use wattline_units::{PacketsPerSecond, Span, Time};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "table",
    summary: "Measures the rate and looks the operating point up in a table that was computed for a server",
    source: "PowerSave, section 6 (the rejected alternative: it needs the rate, and a table per server)",
    parameters: &[
        Parameter {
            name: "period",
            kind: Kind::Duration { min_micros: 10, max_micros: 10_000_000 },
            default: "10ms",
            meaning: "time over which the rate is measured",
            source: "ours",
        },
        Parameter {
            name: "headroom",
            kind: Kind::Number { min: 1.0, max: 10.0 },
            default: "1.1",
            meaning: "factor on the measured rate before the look-up",
            source: "ours: the next period may bring more",
        },
        Parameter {
            name: "server",
            kind: Kind::Word,
            default: "same",
            meaning: "server whose table it is, by name or file; `same` for the one that runs",
            source: "ours: another server's table shows what a wrong one costs",
        },
        LOAD,
    ],
    make,
};

struct Table {
    envelope: Envelope,
    period: Span,
    headroom: f64,
    last: (Time, u64),
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let cores = context.platform.cores;
    let load = parameters.number("load");
    let envelope = match (parameters.word("server"), context.server, context.packet) {
        ("same", Some(server), Some((cost, bytes))) => {
            Envelope::of(server, cores, cost, bytes, load)
        }
        ("same", _, _) => return Err("needs a server model and the cost of a packet".into()),
        (name, _, packet) => {
            let model = read_server(name)?;
            let bytes = packet.map_or(64, |(_, bytes)| bytes);
            let cost = model
                .packet_cost(Application::Ipv4, bytes)
                .ok_or_else(|| format!("server = \"{name}\": has no cost of ipv4"))?;
            Envelope::of(&model, cores.min(model.processor.cores()), cost, bytes, load)
        }
    };
    Ok(Box::new(Table {
        envelope,
        period: parameters.span("period"),
        headroom: parameters.number("headroom"),
        last: (Time::ZERO, 0),
    }))
}

impl Policy for Table {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let now = seen.now;
        let arrivals = seen.arrivals();
        let elapsed = now.since(self.last.0).as_seconds();
        let rate = match seen.trigger {
            // No rate has been measured yet.
            Trigger::Start => f64::INFINITY,
            _ if elapsed > 0.0 => (arrivals - self.last.1) as f64 / elapsed * self.headroom,
            _ => return AskAgain::at(now + self.period),
        };
        self.last = (now, arrivals);
        point.set_wait(Wait::Interrupt);
        take_step(&self.envelope, PacketsPerSecond(rate), seen, point);
        AskAgain::at(now + self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, server};

    #[test]
    fn starts_with_everything_and_then_looks_up() {
        let model = server();
        let mut bench = Bench::new();
        bench.play("table", Some(&model));
        assert_eq!(bench.rung(), (12, 13));
        bench.pass(Span::from_millis(10), &[], 50_000);
        let (cores, frequency) = bench.rung();
        assert!(cores <= 4 && frequency == 0, "5 Mpps take 3 cores at 1.6 GHz, got {cores}");
    }

    /// A model with three of the machine's fourteen frequencies.
    #[test]
    fn frequencies_of_a_file_map_to_the_machine() {
        let text = wattline_server::library::read(
            "westmere-2010",
            wattline_server::library::Kind::Servers,
        )
        .unwrap();
        let begin = text.find("{ values = [").unwrap();
        let end = begin + text[begin..].find("steps of the 133.3 MHz bus clock\" }").unwrap();
        let end = end + "steps of the 133.3 MHz bus clock\" }".len();
        let three = format!("{}[1.6, 2.4, 3.3333330001]{}", &text[..begin], &text[end..]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("three.toml");
        std::fs::write(&path, &three).unwrap();
        let bench = Bench::playing(&format!("table:server={}", path.display()));
        assert_eq!(bench.rung(), (12, 13));
        std::fs::write(&path, three.replace("ports = 4", "ports = 0")).unwrap();
        let error = bench.make(&format!("table:server={}", path.display()), None).err().unwrap();
        let error = error.to_string();
        assert!(error.contains("three.toml:") && error.contains("nic.ports = 0"), "{error}");
    }

    #[test]
    fn an_unknown_server_is_named() {
        let bench = Bench::new();
        let error = bench.refused("table:server=none");
        assert!(error.contains("server: none: "));
    }
}
