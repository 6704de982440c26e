//! Wattline's ESP against another's: the guest kernel's over a cable, and in the guest as the
//! data plane of associations that `ip xfrm` or strongSwan has put into its kernel.
//!
//! All cryptography of the guest is emulated and slow: no check is about speed.

mod follow;
mod gateway;
mod ike;
mod peer;

use super::{Checks, INSIDE};
use std::path::Path;
use wattline_testbed::Error;
use wattline_testbed::leftovers::can_build_namespaces;
use wattline_testbed::rig::{Machine, Options, Rig};

/// Boots a machine and adds all checks to `checks`. Checks with the emulated machine as the peer of
/// a Wattline outside need namespaces.
///
/// # Errors
/// When the machine fails; a check that does not hold is no error.
pub fn ipsec(rig: &Rig, wattline: &Path, checks: &mut Checks) -> Result<(), Error> {
    let site = if can_build_namespaces("the guest's kernel as the peer over a tap") {
        Some(peer::Site::build()?)
    } else {
        None
    };
    let mut machine = Machine::boot(
        rig,
        &Options {
            programs: vec![("wattline", wattline.to_owned())],
            cards: 1,
            ipsec: true,
            namespaces: true,
            taps: site.as_ref().map(|site| site.router.name().to_owned()),
            ..Options::default()
        },
    )?;
    if let Some(site) = &site {
        peer::check(&mut machine, site, wattline, checks)?;
    }
    gateway::build(&mut machine)?;
    follow::check(&mut machine, checks)?;
    ike::check(&mut machine, checks)?;
    machine.power_off()
}

/// Writes a file inside; `text` has no single quotes.
pub(super) fn write(machine: &mut Machine, path: &str, text: &str) -> Result<(), Error> {
    let lines: Vec<String> = text.lines().map(|line| format!("'{line}'")).collect();
    machine.run(&format!("printf '%s\\n' {} > {path}", lines.join(" ")), INSIDE).map(drop)
}

/// Runs `ip` commands inside, one a line, in a namespace or in none. The shell would take the
/// `ip` of busybox, which knows no namespaces and associations.
pub(super) fn ip(machine: &mut Machine, namespace: Option<&str>, lines: &str) -> Result<(), Error> {
    write(machine, "/tmp/batch", lines)?;
    let within = namespace.map_or(String::new(), |name| format!("-n {name} "));
    machine.run(&format!("/bin/ip {within}-batch /tmp/batch"), INSIDE).map(drop)
}

/// Returns the packets that were sent, received and received twice, from the last lines of
/// busybox's or iputils' ping.
pub(super) fn pinged(text: &str) -> Option<(u64, u64, u64)> {
    let line = text.lines().find(|line| line.contains(" packets transmitted"))?;
    let number = |before: &str| {
        let words = line.split(',').find(|words| words.contains(before))?;
        words.split_whitespace().find_map(|word| word.trim_start_matches('+').parse().ok())
    };
    Some((number("transmitted")?, number("received")?, number("duplicates").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_ping_is_parsed() {
        let busybox = "PING x\n3 packets transmitted, 2 packets received, 33% packet loss\n";
        assert_eq!(pinged(busybox), Some((3, 2, 0)));
        let twice = "3 packets transmitted, 3 packets received, 1 duplicates, 0% packet loss\n";
        assert_eq!(pinged(twice), Some((3, 3, 1)));
        let iputils = "2 packets transmitted, 2 received, +1 duplicates, 0% packet loss, time 9ms";
        assert_eq!(pinged(iputils), Some((2, 2, 1)));
        assert_eq!(pinged("ping: bad address"), None);
    }
}
