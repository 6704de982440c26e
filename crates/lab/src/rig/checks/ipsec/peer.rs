//! The guest's kernel as the peer of a Wattline outside, over a tap: every algorithm, IPv4 and
//! IPv6 inside and outside, extended sequence numbers, UDP encapsulation.
//!
//! ```text
//!   source ── router: Wattline ── tap ═══ tunnels ═══ eth0: the guest's kernel
//!   10.1.0.2                192.0.2.1             192.0.2.2, inside 10.2.N.1
//! ```

use super::{INSIDE, ike, ip, pinged};
use crate::forwarder::Wattline;
use crate::namespace::Namespace;
use crate::rig::Machine;
use crate::rig::checks::{Checks, Witness};
use crate::{Error, command};
use std::fmt::Write;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// Time for the next bytes of a stream.
const PATIENCE: Duration = Duration::from_secs(20);
/// Lengths of echo requests: none, odd, around blocks of 16, and the longest that fits all.
const LENGTHS: [u16; 6] = [0, 57, 64, 71, 1000, 1350];
/// Too long for any tunnel, but not for the link.
const CUT: u16 = 1472;
/// Requests of each length: one, because after a first answer ping waits for two round trips
/// only, which on a busy machine differ.
const REQUESTS: u64 = 1;
/// Bytes of a stream, in each direction.
const STREAM: usize = 60_000;
/// Where the guest sends back what it gets.
const ECHO: u16 = 9;

/// A tunnel.
struct Kind {
    algorithm: &'static str,
    ipv6: bool,
    extended: bool,
    udp: bool,
}

const fn kind(algorithm: &'static str, ipv6: bool, extended: bool, udp: bool) -> Kind {
    Kind { algorithm, ipv6, extended, udp }
}

/// Each algorithm, and each of the other three with at least one of GCM and of CBC.
const KINDS: [Kind; 8] = [
    kind("aes128-gcm", false, false, false),
    kind("aes256-gcm", true, true, false),
    kind("aes128-cbc-sha1", false, false, false),
    kind("aes256-cbc-sha1", true, true, false),
    kind("aes128-cbc-sha256", true, false, false),
    kind("aes256-cbc-sha256", false, true, false),
    kind("aes128-gcm", false, true, true),
    kind("aes256-cbc-sha256", true, false, true),
];

impl Kind {
    /// Lengths of the keys of cipher (with salt) and HMAC in bytes.
    fn key_lengths(&self) -> (usize, usize) {
        let cipher = if self.algorithm.starts_with("aes256") { 32 } else { 16 };
        match self.algorithm {
            gcm if gcm.ends_with("gcm") => (cipher + 4, 0),
            sha1 if sha1.ends_with("sha1") => (cipher, 20),
            _ => (cipher, 32),
        }
    }

    fn ends(&self) -> [&'static str; 2] {
        if self.ipv6 { ["2001:db8:9::1", "2001:db8:9::2"] } else { ["192.0.2.1", "192.0.2.2"] }
    }

    /// An association as `ip xfrm state add` has it.
    fn state(&self, number: usize, to_guest: bool) -> String {
        let [router, guest] = self.ends();
        let (from, to) = if to_guest { (router, guest) } else { (guest, router) };
        let key = key(number, to_guest, self.key_lengths());
        let (cipher, integrity) = key.split_at(2 * self.key_lengths().0);
        let mut line = format!(
            "xfrm state add src {from} dst {to} proto esp spi {:#x} reqid {} mode tunnel ",
            spi(number, to_guest),
            number + 1
        );
        line += if self.extended {
            "replay-window 64 flag esn af-unspec "
        } else {
            // Without it the kernel would take no inner packets of the other IP version.
            "replay-window 32 flag af-unspec "
        };
        line += &match self.algorithm {
            gcm if gcm.ends_with("gcm") => format!("aead rfc4106(gcm(aes)) 0x{cipher} 128"),
            cbc => {
                let (name, bits) =
                    if cbc.ends_with("sha1") { ("sha1", 96) } else { ("sha256", 128) };
                format!("enc cbc(aes) 0x{cipher} auth-trunc hmac({name}) 0x{integrity} {bits}")
            }
        };
        line + if self.udp { " encap espinudp 4500 4500 0.0.0.0" } else { "" }
    }

    fn name(&self) -> String {
        let mut name = format!("{} in IPv{}", self.algorithm, if self.ipv6 { 6 } else { 4 });
        name += if self.udp { " and UDP" } else { "" };
        name + if self.extended { ", ESN" } else { "" }
    }
}

fn spi(number: usize, to_guest: bool) -> usize {
    0x1001 + 2 * number + usize::from(to_guest)
}

/// A key of its own for each tunnel and direction, in hexadecimal digits.
fn key(number: usize, to_guest: bool, (cipher, integrity): (usize, usize)) -> String {
    let first = 0x11 * (1 + number) + usize::from(to_guest);
    (0..cipher + integrity).map(|index| format!("{:02x}", (first + 7 * index) as u8)).collect()
}

/// What is outside: a router, and a host behind it.
pub struct Site {
    pub router: Namespace,
    source: Namespace,
}

impl Site {
    pub fn build() -> Result<Self, Error> {
        let site =
            Self { router: Namespace::create("router")?, source: Namespace::create("source")? };
        let source = site.source.name();
        site.router.ip(&format!("link add left type veth peer name lan netns {source}"))?;
        for (namespace, interface, host) in [(&site.router, "left", 1), (&site.source, "lan", 2)] {
            let off = ["-K", interface, "tx", "off", "rx", "off", "sg", "off", "gro", "off"];
            namespace.run("ethtool", &off, LIMIT)?;
            namespace.ip(&format!(
                "address add 10.1.0.{host}/24 dev {interface}\n\
                 address add 2001:db8:1::{host}/64 dev {interface} nodad\n\
                 link set {interface} up"
            ))?;
        }
        site.source.ip("route add default via 10.1.0.1\nroute add default via 2001:db8:1::1")?;
        site.router.sysctl(&[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")])?;
        Ok(site)
    }

    /// How many echoes of how many requests came back, over all lengths.
    fn ping(&self, address: &str, lengths: &[u16]) -> Result<(u64, u64), Error> {
        let (mut sent, mut received) = (0, 0);
        for length in lengths {
            let mut ping = self.source.command("ping");
            ping.args(["-n", "-q", "-M", "dont", "-W", "20", "-c"]);
            ping.arg(REQUESTS.to_string()).args(["-s", &length.to_string(), address]);
            let output = command::run_to_end(&mut ping, LIMIT, "")?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let (all, back, twice) = pinged(&text).unwrap_or_default();
            (sent, received) = (sent + all, received + back + twice);
        }
        Ok((sent, received))
    }

    /// Whether a stream that the guest sends back comes back byte for byte.
    fn echo(&self, address: IpAddr) -> Result<bool, Error> {
        let sent: Vec<u8> = (0..STREAM as u32)
            .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let received = self.source.enter(|| {
            let mut stream = TcpStream::connect_timeout(&SocketAddr::new(address, ECHO), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let mut writer = stream.try_clone()?;
            let mut received = vec![0; sent.len()];
            std::thread::scope(|scope| {
                let writing = scope.spawn(|| writer.write_all(&sent));
                stream.read_exact(&mut received)?;
                writing.join().unwrap_or(Ok(()))
            })?;
            Ok::<_, std::io::Error>(received)
        })?;
        Ok(received.is_ok_and(|received| received == sent))
    }
}

/// Both ends, and all that must pass.
pub fn check(
    machine: &mut Machine,
    site: &Site,
    wattline: &Path,
    checks: &mut Checks,
) -> Result<(), Error> {
    site.router.ip("address add 192.0.2.1/24 dev tap0\n\
         address add 2001:db8:9::1/64 dev tap0 nodad\n\
         link set tap0 up\n\
         route add 10.2.0.0/16 via 192.0.2.2\n\
         route add 2001:db8:2::/48 via 2001:db8:9::2")?;
    guest(machine)?;
    // It has the socket that the kernel asks for before it takes ESP out of UDP.
    ike::start(machine, None, "holder")?;
    let folder = tempfile::tempdir().map_err(|e| Error::io("making a folder", e))?;
    let config = configuration(folder.path())?;
    let router = Wattline::start_in(&site.router, wattline, |socket| {
        format!("[router]\nsocket = \"{}\"\n{config}", socket.display())
    })?;

    // Both ends find each other first: addresses of the link, routes.
    for address in ["10.2.0.1", "10.2.1.1"] {
        site.ping(address, &[56])?;
    }
    for (number, kind) in KINDS.iter().enumerate() {
        let addresses = [format!("10.2.{number}.1"), format!("2001:db8:2:{number}::1")];
        let mut echoes = (0, 0);
        let mut whole = Vec::new();
        for address in &addresses {
            let (sent, received) = site.ping(address, &LENGTHS)?;
            echoes = (echoes.0 + sent, echoes.1 + received);
            let address = address.parse().map_err(|_| Error::Rig {
                what: format!("{address} is no address"),
                console: String::new(),
            })?;
            whole.push(received > 0 && site.echo(address)?);
        }
        let name = kind.name();
        checks.equal(format!("{name}: echoes"), Witness::Outside, &echoes.0, &echoes.1);
        let what = format!("{name}: TCP byte for byte over IPv4, IPv6");
        checks.equal(what, Witness::Outside, &vec![true, true], &whole);
    }

    counted(machine, &router, checks)?;
    too_long(machine, site, checks)?;
    let errors = machine.run("grep -v -w 0 /proc/net/xfrm_stat; true", INSIDE)?;
    checks.equal("errors of the kernel's ESP", Witness::Inside, &String::new(), &errors);
    let totals = router.stop()?;
    checks.equal("all frames are accounted for", Witness::Outside, &true, &totals.balance());
    ike::stop(machine, "holder")?;
    machine.run("/bin/ip xfrm state flush; /bin/ip xfrm policy flush", INSIDE).map(drop)
}

/// Both ends have counted the same packets.
fn counted(machine: &mut Machine, router: &Wattline, checks: &mut Checks) -> Result<(), Error> {
    let mut both = Vec::new();
    // The last stream may be saying goodbye still.
    for _ in 0..20 {
        let stats = router.stats()?;
        let counts = machine.run("/bin/ip -s xfrm state", INSIDE)?;
        both = KINDS
            .iter()
            .enumerate()
            .map(|(number, _)| {
                let tunnel = &stats["applications"]["ipsec"]["tunnels"][number];
                let here = |direction: &str| tunnel[direction]["packets"].as_u64();
                let there = |to_guest| packets(&counts, spi(number, to_guest));
                let dropped = [&tunnel["outbound"], &tunnel["inbound"]]
                    .map(|direction| direction["dropped"].as_object().map_or(0, |it| it.len()));
                ((here("outbound"), here("inbound")), (there(true), there(false)), dropped)
            })
            .collect();
        if both.iter().all(|(ours, theirs, _)| ours == theirs) {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    for (kind, (ours, theirs, dropped)) in KINDS.iter().zip(both) {
        let what = format!("{}: packets, as the kernel has counted", kind.name());
        checks.equal(what, Witness::Inside, &theirs, &ours);
        let what = format!("{}: there were some, and none was dropped", kind.name());
        let well = ours.0 > Some(0) && ours.1 > Some(0) && dropped == [0, 0];
        checks.equal(what, Witness::Outside, &true, &well);
    }
    Ok(())
}

/// Packets as long as the link are cut before they are encrypted. The kernel cuts its answers
/// after it, and nobody outside puts those together: no echo comes back.
fn too_long(machine: &mut Machine, site: &Site, checks: &mut Checks) -> Result<(), Error> {
    let mut had = || {
        let counts = machine.run("/bin/ip -s xfrm state", INSIDE)?;
        Ok::<_, Error>(packets(&counts, spi(0, true)).unwrap_or(0))
    };
    let before = had()?;
    let (sent, _) = site.ping("10.2.0.1", &[CUT])?;
    let arrived = had()? - before;
    let what = "packets of 1500 bytes: the kernel has them in two pieces each";
    checks.equal(what, Witness::Inside, &(2 * REQUESTS, 2 * sent), &(arrived, arrived));
    Ok(())
}

/// Addresses, associations and policies of the guest, and what sends a stream back.
fn guest(machine: &mut Machine) -> Result<(), Error> {
    let mut lines = String::from(
        "address add 192.0.2.2/24 dev eth0\n\
         address add 2001:db8:9::2/64 dev eth0 nodad\n\
         link set eth0 up\n\
         route add 10.1.0.0/24 via 192.0.2.1\n\
         route add 2001:db8:1::/64 via 2001:db8:9::1",
    );
    for (number, kind) in KINDS.iter().enumerate() {
        let [router, guest] = kind.ends();
        let own = [format!("10.2.{number}.0/24"), format!("2001:db8:2:{number}::/64")];
        let _ = write!(
            lines,
            "\naddress add 10.2.{number}.1/32 dev lo\n\
             address add 2001:db8:2:{number}::1/128 dev lo nodad\n{}\n{}",
            kind.state(number, true),
            kind.state(number, false)
        );
        for (far, own) in ["10.1.0.0/24", "2001:db8:1::/64"].iter().zip(&own) {
            let reqid = number + 1;
            for (from, to, direction, ends) in
                [(own.as_str(), *far, "out", (guest, router)), (far, own, "in", (router, guest))]
            {
                let _ = write!(
                    lines,
                    "\nxfrm policy add src {from} dst {to} dir {direction} tmpl src {} dst {} \
                     proto esp reqid {reqid} mode tunnel",
                    ends.0, ends.1
                );
            }
        }
    }
    ip(machine, None, &lines)?;
    let line = format!("(nc -ll -p {ECHO} -e cat </dev/null >/dev/null 2>&1 & true)");
    machine.run(&line, INSIDE).map(drop)
}

/// Wattline's, with all tunnels at once.
fn configuration(folder: &Path) -> Result<String, Error> {
    let mut text = format!(
        "[[port]]\nname = \"left\"\ninterface = \"left\"\n\
         [[port]]\nname = \"wan\"\ninterface = \"tap0\"\n\
         [ipsec]\nstate = \"{}\"\n",
        folder.join("state").display()
    );
    for (number, kind) in KINDS.iter().enumerate() {
        let [local, remote] = kind.ends();
        let _ = write!(
            text,
            "[[ipsec_tunnel]]\nname = \"t{number}\"\nlocal = \"{local}\"\nremote = \"{remote}\"\n\
             algorithm = \"{}\"\nextended_sequence = {}\nudp_encapsulation = {}\n",
            kind.algorithm, kind.extended, kind.udp
        );
        for (direction, to_guest) in [("in", false), ("out", true)] {
            let path = folder.join(format!("{number}-{direction}.key"));
            fs::write(&path, key(number, to_guest, kind.key_lengths()))
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)))
                .map_err(|e| Error::io(format!("writing {}", path.display()), e))?;
            let _ = write!(
                text,
                "spi_{direction} = {}\nkey_{direction}_file = \"{}\"\n",
                spi(number, to_guest),
                path.display()
            );
        }
        let far = [format!("10.2.{number}.0/24"), format!("2001:db8:2:{number}::/64")];
        for (own, far) in ["10.1.0.0/24", "2001:db8:1::/64"].iter().zip(far) {
            let _ = write!(
                text,
                "[[ipsec_policy]]\nsource = \"{own}\"\ndestination = \"{far}\"\n\
                 tunnel = \"t{number}\"\n"
            );
        }
    }
    Ok(text)
}

/// Packets that the kernel has counted for an SPI, from what `ip -s xfrm state` says.
pub(super) fn packets(states: &str, spi: usize) -> Option<u64> {
    let (_, rest) = states.split_once(&format!("spi {spi:#010x}"))?;
    let (_, rest) = rest.split_once("lifetime current:")?;
    let (_, rest) = rest.split_once("(bytes),")?;
    rest.split_once("(packets)")?.0.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_fit() {
        let mut all = std::collections::HashSet::new();
        for (number, kind) in KINDS.iter().enumerate() {
            for to_guest in [true, false] {
                let key = key(number, to_guest, kind.key_lengths());
                let (cipher, integrity) = kind.key_lengths();
                assert_eq!(key.len(), 2 * (cipher + integrity));
                assert!(all.insert(key), "{number}");
            }
        }
    }

    #[test]
    fn counters_are_found_by_spi() {
        let text = "src a dst b\n\tproto esp spi 0x00001002(4098) reqid 1\n\tlifetime current:\n\
                    \t  84(bytes), 1(packets)\nsrc b dst a\n\tproto esp spi 0x00001001(4097)\n\
                    \tlifetime current:\n\t  252(bytes), 3(packets)\n";
        assert_eq!((packets(text, 0x1001), packets(text, 0x1002)), (Some(3), Some(1)));
        assert_eq!(packets(text, 0x1003), None);
    }
}
