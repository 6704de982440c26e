//! Obstacles to forwarding in XDP programs, which use only the kernel's tables.

use super::power::{PowerPlatform, PowerSettings};
use super::router::{Mode, XdpForwarding};
use super::settings::{Config, PortKind, PortSettings};
use wattline_policy::{
    Asks, BuildContext, Can, IdleState, NeedsWorkers, Platform, Queue, Timing, Waits, build,
};
use wattline_units::{Hertz, Span};

/// Most ports between which XDP programs forward.
const PORTS_MAX: usize = wattline_xdp::FORWARD_PORTS_MAX as usize;

impl Config {
    /// Lists settings that the kernel's tables cannot express or that require workers to see the
    /// packets. The list is empty if XDP programs may forward by themselves.
    pub fn obstacles_to_xdp_forwarding(&self) -> Vec<&'static str> {
        let settings = &self.router;
        // Polling workers are meant to forward.
        let polls = settings.mode == Mode::Poll && settings.xdp_forward == XdpForwarding::Auto;
        let is_capture = |port: &&PortSettings| matches!(port.kind, PortKind::Capture { .. });
        let ports = |is_set: fn(&PortSettings) -> bool| {
            self.ports.iter().filter(|port| !is_capture(port)).any(is_set)
        };
        let obstacles = [
            ("[router] mode = \"poll\"", polls),
            ("[router] kernel_routes = false", !settings.kernel_routes),
            ("[[port]] capture", self.ports.iter().any(|port| is_capture(&port))),
            ("[[port]] addresses", ports(|port| !port.addresses.is_empty())),
            ("[[port]] mtu", ports(|port| port.mtu.is_some())),
            ("[[port]] promiscuous", ports(|port| port.promiscuous)),
            ("[[route]]", !self.routes.is_empty()),
            ("routes_file", self.routes_file.is_some()),
            ("[[neighbour]]", !self.neighbours.is_empty()),
            ("[power] platform = \"scale\"", self.power.platform == PowerPlatform::Scale),
            ("more than 256 ports", self.ports.len() > PORTS_MAX),
        ];
        let policy = (self.power.platform == PowerPlatform::Host)
            .then(|| obstacle_of_policy(&self.power))
            .flatten();
        // Applications that have to see all packets; others are in [`Self::sections_for_workers`].
        let of_all = self.applications.iter().filter(|settings| settings.ports().is_none());
        let applications = of_all.map(|settings| settings.heading());
        let obstacles = obstacles.into_iter().filter(|(_, is)| *is).map(|(what, _)| what);
        obstacles.chain(policy).chain(applications).collect()
    }

    /// Lists the sections for which workers have to see the packets received at a port, by its
    /// index, while XDP programs forward between other ports.
    pub fn sections_for_workers(&self, port: usize) -> Vec<&'static str> {
        let of_port = self
            .applications
            .iter()
            .filter(|settings| settings.ports().is_some_and(|ports| ports.contains(&port)));
        of_port.map(|settings| settings.heading()).collect()
    }
}

/// Returns an input of the policy on this machine that only workers can provide. Other policies see
/// the packets of XDP programs, too: by load, and by streaks of the kernel's polls.
fn obstacle_of_policy(power: &PowerSettings) -> Option<&'static str> {
    let idle = IdleState {
        name: "C1".into(),
        exit_latency: Span::from_micros(1),
        exit_latency_measured: None,
    };
    let platform = Platform {
        cores: 2,
        frequencies: vec![Hertz(1e9), Hertz(2e9)],
        idle_states: vec![idle],
        queues: (0..2).map(|core| Queue { port: 0, core }).collect(),
        can: Can {
            waits: Waits { interrupt: true, ..Waits::NONE },
            asks: Asks { streaks: Timing::Exact, ..Asks::NOTHING },
            ..Can::EVERY_KNOB
        },
        ..Platform::BARE
    };
    let spec = power.policies.parse(&power.policy).ok()?;
    let context = BuildContext { platform: &platform, server: None, packet: None, seed: 1 };
    // A policy that cannot be built here is reported by the governor.
    match NeedsWorkers::and_ask(&mut *build(&spec, &context).ok()?, &platform) {
        // Such a policy works on no machine.
        Err(NeedsWorkers::OfferedRate) => None,
        Err(NeedsWorkers::Batches) => Some("[power] policy, which decides at batches of packets"),
        Err(NeedsWorkers::Polling) => Some("[power] policy, which lets cores poll"),
        Ok(ask) => (ask.on_streak.check_polls().err())
            .map(|_| "[power] policy, which asks for more than polls of 64 packets show"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "[router]\n[[port]]\nname = \"a\"\ninterface = \"eth0\"\n";

    fn found(text: &str) -> Vec<&'static str> {
        Config::parse_whole(text, "test", &[], wattline_policies::POLICIES)
            .unwrap()
            .obstacles_to_xdp_forwarding()
    }

    #[test]
    fn settings_that_need_workers_are_obstacles() {
        assert_eq!(found(PLAIN), [""; 0]);
        for (more, obstacle) in [
            ("mode = \"poll\"", "[router] mode = \"poll\""),
            ("kernel_routes = false", "[router] kernel_routes = false"),
            ("[power]\nplatform = \"scale\"", "[power] platform = \"scale\""),
            (
                "[power]\nplatform = \"host\"\npolicy = \"queue-length:read=after\"",
                "[power] policy, which asks for more than polls of 64 packets show",
            ),
            (
                "[power]\nplatform = \"host\"\npolicy = \"poll\"",
                "[power] policy, which lets cores poll",
            ),
        ] {
            let text = PLAIN.replacen("[router]\n", &format!("[router]\n{more}\n"), 1);
            assert_eq!(found(&text), [obstacle]);
        }
        for (more, obstacle) in [
            ("mtu = 1400", "[[port]] mtu"),
            ("promiscuous = true", "[[port]] promiscuous"),
            ("addresses = [\"192.0.2.1/24\"]", "[[port]] addresses"),
            ("[[port]]\nname = \"b\"\ncapture = { read = \"x.pcap\" }", "[[port]] capture"),
            ("routes_file = \"routes.txt\"", "routes_file"),
            (
                "[[neighbour]]\naddress = \"192.0.2.2\"\nmac = \"02:00:00:00:00:02\"\nport = \"a\"",
                "[[neighbour]]",
            ),
            ("[[route]]\nprefix = \"10.0.0.0/8\"\nvia = \"192.0.2.2\"\nport = \"a\"", "[[route]]"),
        ] {
            assert_eq!(found(&format!("{PLAIN}{more}\n")), [obstacle]);
        }
    }

    #[test]
    fn policies_by_load_and_by_streaks_work_with_xdp_forwarding() {
        for policy in [
            "ondemand",
            "conservative",
            "schedutil",
            "performance+100us",
            "queue-length",
            "wattline:p99=250us",
        ] {
            let text = format!("{PLAIN}[power]\nplatform = \"host\"\npolicy = \"{policy}\"\n");
            assert_eq!(found(&text), [""; 0], "{policy}");
        }
    }

    #[test]
    fn unfulfillable_request_is_reported_with_its_reason() {
        let on = PLAIN.replacen("[router]\n", "[router]\nxdp_forward = \"on\"\n", 1);
        let polling = on.replacen("[router]\n", "[router]\nmode = \"poll\"\n", 1);
        assert_eq!(found(&polling), [""; 0], "as it was asked for");
        let text = format!("{on}mtu = 1400\npromiscuous = true\n");
        let problems = Config::parse(&text, "test").unwrap_err();
        assert_eq!(problems.list.len(), 1, "{problems}");
        let problem = &problems.list[0];
        assert_eq!((problem.line, problem.key.as_str()), (2, "[router] xdp_forward"));
        assert!(problem.message.contains("[[port]] mtu, [[port]] promiscuous"), "{problems}");
    }
}
