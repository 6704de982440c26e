//! What stands against forwarding in XDP programs, which know the kernel's tables only.

use super::PowerPlatform;
use super::settings::{Config, Mode, PortKind, PortSettings, XdpForwarding};

/// Most ports between which XDP programs forward.
const PORTS_MAX: usize = wattline_xdp::FORWARD_PORTS_MAX as usize;

impl Config {
    /// What the kernel's tables do not know, or what needs a worker to see the packets; nothing
    /// where XDP programs may forward by themselves.
    pub fn obstacles_to_xdp_forwarding(&self) -> Vec<&'static str> {
        let settings = &self.router;
        // Whoever asks for workers that poll wants them to forward.
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
            ("[power] platform", self.power.platform != PowerPlatform::None),
            ("more than 256 ports", self.ports.len() > PORTS_MAX),
        ];
        // All applications want to see packets.
        let applications = self.applications.iter().map(|settings| settings.heading());
        let obstacles = obstacles.into_iter().filter(|(_, is)| *is).map(|(what, _)| what);
        obstacles.chain(applications).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "[router]\n[[port]]\nname = \"a\"\ninterface = \"eth0\"\n";

    fn found(text: &str) -> Vec<&'static str> {
        Config::parse(text, "test").unwrap().obstacles_to_xdp_forwarding()
    }

    #[test]
    fn what_workers_have_to_see_stands_against_it() {
        assert_eq!(found(PLAIN), [""; 0]);
        for (more, obstacle) in [
            ("mode = \"poll\"", "[router] mode = \"poll\""),
            ("kernel_routes = false", "[router] kernel_routes = false"),
            ("[power]\nplatform = \"host\"", "[power] platform"),
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
    fn who_asks_for_it_in_vain_is_told_why() {
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
