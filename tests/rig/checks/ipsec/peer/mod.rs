//! The guest's kernel as the peer of a Wattline outside, over a tap: every algorithm, IPv4 and
//! IPv6 inside and outside, extended sequence numbers, UDP encapsulation.
//!
//! ```text
//!   source ── router: Wattline ── tap ═══ tunnels ═══ eth0: the guest's kernel
//!   10.1.0.2                192.0.2.1             192.0.2.2, inside 10.2.N.1
//! ```

mod site;
mod tunnels;

pub use site::Site;

use super::{INSIDE, ike};
use crate::checks::{Checks, Witness};
use site::REQUESTS;
use std::path::Path;
use std::time::Duration;
use tunnels::{KINDS, configuration, guest, spi};
use wattline_testbed::Error;
use wattline_testbed::forwarder::Wattline;
use wattline_testbed::rig::Machine;

const LIMIT: Duration = Duration::from_secs(60);
/// Lengths of echo requests: none, odd, around blocks of 16, and the longest that fits all.
const LENGTHS: [u16; 6] = [0, 57, 64, 71, 1000, 1350];
/// Too long for any tunnel, but not for the link.
const CUT: u16 = 1472;

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
    // It has the socket that the kernel needs before it takes ESP out of UDP.
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
    // The last stream may still be closing.
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

/// Packets as long as the link are fragmented before encryption. The kernel fragments its answers
/// after it, and no host outside reassembles them: no echo comes back.
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

/// Returns the packets that the kernel has counted for an SPI, from the output of `ip -s xfrm
/// state`.
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
    fn counters_are_found_by_spi() {
        let text = "src a dst b\n\tproto esp spi 0x00001002(4098) reqid 1\n\tlifetime current:\n\
                    \t  84(bytes), 1(packets)\nsrc b dst a\n\tproto esp spi 0x00001001(4097)\n\
                    \tlifetime current:\n\t  252(bytes), 3(packets)\n";
        assert_eq!((packets(text, 0x1001), packets(text, 0x1002)), (Some(3), Some(1)));
        assert_eq!(packets(text, 0x1003), None);
    }
}
