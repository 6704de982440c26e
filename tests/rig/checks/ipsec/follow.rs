//! Associations that `ip xfrm` adds to the gateway's kernel and removes while packets flow:
//! replaced, expired by time, expired by bytes, deleted.

use super::gateway::{ENDS, NETS, Stats, end, end_ping, inside, ping, start, start_ping};
use super::peer::packets;
use super::{INSIDE, ip};
use crate::checks::{Checks, Witness};
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

/// Bytes of an inner packet of ping.
const ECHO: u64 = 84;

/// Runs all checks, in the order of an association's life.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    for (namespace, own) in [("gw", 0), ("peer", 1)] {
        ip(machine, Some(namespace), &policies(own))?;
    }
    add(machine, &["gw", "peer"], 0x1001, "")?;
    start(machine)?;
    taken_over(machine, checks)?;
    replaced(machine, checks)?;
    limited(machine, checks)?;
    gone(machine, checks)?;
    handed_back(machine, checks)?;
    for namespace in ["gw", "peer"] {
        ip(machine, Some(namespace), "xfrm state flush\nxfrm policy flush")?;
    }
    Ok(())
}

/// Each packet goes through the tunnel once, by Wattline, and the kernel's counters include it.
fn taken_over(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let echoes = ping(machine, 10)?;
    checks.equal("kernel's associations: echoes", Witness::Inside, &(10, 10, 0), &echoes);
    let stats = Stats::get(machine)?;
    let found = (stats.associations("outbound"), stats.associations("inbound"));
    let expected = (vec![(0x1001, 10)], vec![(0x1002, 10)]);
    checks.equal("packets that Wattline sent, received", Witness::Inside, &expected, &found);
    checks.equal("associations left to the kernel", Witness::Inside, &0, &stats.left());
    let far = states(machine, "peer")?;
    let found = (packets(&far, 0x1001), packets(&far, 0x1002));
    let what = "packets that the far kernel received, sent";
    checks.equal(what, Witness::Inside, &(Some(10), Some(10)), &found);
    // Wattline reports once a second at most.
    let counted = "until [ $(/bin/ip -n gw -s xfrm state | grep -c ' 10(packets)') = 2 ]; \
                do sleep 0.1; done; /bin/ip -n gw -s xfrm state";
    let near = machine.run(counted, INSIDE)?;
    let found = (packets(&near, 0x1001), packets(&near, 0x1002));
    let what = "the same, as the gateway's kernel counts";
    checks.equal(what, Witness::Inside, &(Some(10), Some(10)), &found);
    let numbers = near.contains("oseq 0xa,") && near.contains("seq 0xa, oseq 0x0");
    checks.equal("and the numbers", Witness::Inside, &true, &numbers);
    Ok(())
}

/// New keys while packets flow.
fn replaced(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let [near, far] = ENDS;
    start_ping(machine, 60)?;
    // As IKE does: the receiving association is there before anything is sent.
    for (namespace, from, to, spi) in [
        ("gw", far, near, 0x2002),
        ("peer", near, far, 0x2001),
        ("gw", near, far, 0x2001),
        ("peer", far, near, 0x2002),
    ] {
        ip(machine, Some(namespace), &state(from, to, spi, ""))?;
    }
    until_sent_by(machine, 0x2001)?;
    let stats = Stats::get(machine)?;
    let found = (stats.spis("outbound"), stats.spis("inbound"));
    let expected = (vec![0x2001], vec![0x1002, 0x2002]);
    checks.equal("new keys beside old: sends, receives", Witness::Inside, &expected, &found);
    for namespace in ["gw", "peer"] {
        delete(machine, namespace, 0x1001)?;
    }
    let echoes = end_ping(machine)?;
    checks.equal("echoes while keys were replaced", Witness::Inside, &(60, 60, 0), &echoes);
    let stats = Stats::get(machine)?;
    let found = (stats.spis("outbound"), stats.spis("inbound"), stats.all_dropped());
    let expected = (vec![0x2001], vec![0x2002], 0);
    checks.equal("old keys gone: sends, receives, drops", Witness::Inside, &expected, &found);
    Ok(())
}

/// By time the kernel ends an association, by bytes Wattline does: then the older one sends.
fn limited(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    add_outbound(machine, "peer", 0x3001, "")?;
    start_ping(machine, 100)?;
    add_outbound(machine, "gw", 0x3001, "limit time-soft 1 limit time-hard 3")?;
    until_sent_by(machine, 0x3001)?;
    until_sent_by(machine, 0x2001)?;
    let echoes = end_ping(machine)?;
    checks.equal("echoes while a key's time ended", Witness::Inside, &(100, 100, 0), &echoes);

    add_outbound(machine, "peer", 0x4001, "")?;
    let watch = "(/bin/ip netns exec gw sh -c 'echo $$ > /tmp/watch.pid; \
                 exec /bin/ip xfrm monitor expire' > /tmp/expired 2>&1 & true); sleep 0.3";
    machine.run(watch, INSIDE)?;
    let limits = format!("limit byte-soft {} limit byte-hard {}", 3 * ECHO, 20 * ECHO);
    add_outbound(machine, "gw", 0x4001, &limits)?;
    until_sent_by(machine, 0x4001)?;
    let before = Stats::get(machine)?.all_dropped();
    let (sent, received, twice) = ping(machine, 60)?;
    until_sent_by(machine, 0x2001)?;
    let stats = Stats::get(machine)?;
    let lost = (sent - received, twice);
    let expected = (stats.dropped("esp-expired"), 0);
    checks.equal("echoes lost at the end of a key's bytes", Witness::Inside, &expected, &lost);
    checks.equal("of 60 most passed", Witness::Inside, &true, &(received >= 50));
    checks.equal(
        "dropped for this and nothing else",
        Witness::Inside,
        &lost.0,
        &(stats.all_dropped() - before),
    );
    let expiries = machine.run("kill $(cat /tmp/watch.pid); cat /tmp/expired", INSIDE)?;
    let said = |hard: &str| {
        expiries.split("Expired").any(|one| one.contains("0x00004001") && one.contains(hard))
    };
    let found = (said("hard 0"), said("hard 1"));
    checks.equal("the kernel reports: soft, hard expiry", Witness::Inside, &(true, true), &found);
    let left = states(machine, "gw")?.contains("0x00004001");
    checks.equal("it has deleted the key", Witness::Inside, &false, &left);
    Ok(())
}

/// Without any key nothing passes, in clear least of all.
fn gone(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    ip(machine, Some("gw"), "xfrm state flush")?;
    machine.run("sleep 0.5", INSIDE)?;
    let before = Stats::get(machine)?.dropped("ipsec-no-association");
    let (_, received, _) = ping(machine, 5)?;
    let dropped = Stats::get(machine)?.dropped("ipsec-no-association") - before;
    checks.equal("no keys: echoes, drops", Witness::Inside, &(0, 5), &(received, dropped));
    Ok(())
}

/// Wattline ends: its kernel goes on with the same associations.
fn handed_back(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    ip(machine, Some("peer"), "xfrm state flush")?;
    add(machine, &["gw", "peer"], 0x5001, "replay-window 32")?;
    until_sent_by(machine, 0x5001)?;
    let first = ping(machine, 10)?;
    let status = end(machine, "TERM")?;
    let second = ping(machine, 10)?;
    let found = (first, status, second);
    let expected = ((10, 10, 0), 0, (10, 10, 0));
    checks.equal("echoes; Wattline's end; echoes", Witness::Inside, &expected, &found);
    let near = states(machine, "gw")?;
    let found = (packets(&near, 0x5001), packets(&near, 0x5002));
    let what = "packets that the kernel counts for both";
    checks.equal(what, Witness::Inside, &(Some(20), Some(20)), &found);

    start(machine)?;
    until_sent_by(machine, 0x5001)?;
    let first = ping(machine, 10)?;
    // The kernel had the counters within a second.
    machine.run("sleep 1.5", INSIDE)?;
    let status = end(machine, "KILL")?;
    let second = ping(machine, 10)?;
    let found = (first, status, second);
    let expected = ((10, 10, 0), 137, (10, 10, 0));
    checks.equal("echoes; Wattline killed; echoes", Witness::Inside, &expected, &found);
    let line = "sh -c \"grep SeqError /proc/net/xfrm_stat | grep -v -w 0; true\"";
    let errors = inside(machine, "peer", line)?;
    checks.equal("taken for replays", Witness::Inside, &String::new(), &errors);
    Ok(())
}

/// Policies of one end.
fn policies(own: usize) -> String {
    let far = 1 - own;
    let line = |from: usize, to: usize, direction| {
        format!(
            "xfrm policy add src {} dst {} dir {direction} tmpl src {} dst {} proto esp reqid 1 \
             mode tunnel",
            NETS[from], NETS[to], ENDS[from], ENDS[to]
        )
    };
    [line(own, far, "out"), line(far, own, "in"), line(far, own, "fwd")].join("\n")
}

/// Adds the associations `spi` from the gateway and `spi + 1` to it.
fn add(machine: &mut Machine, namespaces: &[&str], spi: u32, more: &str) -> Result<(), Error> {
    let [near, far] = ENDS;
    // The receiving association first, so that no packet arrives too early.
    let lines = [state(far, near, spi + 1, more), state(near, far, spi, more)].join("\n");
    namespaces.iter().try_for_each(|namespace| ip(machine, Some(namespace), &lines))
}

/// Adds the association from the gateway only.
fn add_outbound(machine: &mut Machine, namespace: &str, spi: u32, more: &str) -> Result<(), Error> {
    let [near, far] = ENDS;
    ip(machine, Some(namespace), &state(near, far, spi, more))
}

fn state(from: &str, to: &str, spi: u32, more: &str) -> String {
    let key = format!("{spi:08x}").repeat(5);
    format!(
        "xfrm state add src {from} dst {to} proto esp spi {spi:#x} reqid 1 mode tunnel \
         aead rfc4106(gcm(aes)) 0x{key} 128 {more}"
    )
}

fn delete(machine: &mut Machine, namespace: &str, spi: u32) -> Result<(), Error> {
    let [near, far] = ENDS;
    let lines = format!(
        "xfrm state delete src {near} dst {far} proto esp spi {spi:#x}\n\
         xfrm state delete src {far} dst {near} proto esp spi {:#x}",
        spi + 1
    );
    ip(machine, Some(namespace), &lines)
}

/// Waits until Wattline sends by this association.
fn until_sent_by(machine: &mut Machine, spi: u64) -> Result<(), Error> {
    for _ in 0..200 {
        if Stats::get(machine)?.spis("outbound") == [spi] {
            return Ok(());
        }
        machine.run("sleep 0.1", INSIDE)?;
    }
    let what = format!("Wattline has not begun to send by spi {spi:#x}");
    let console = states(machine, "gw")?;
    Err(Error::Rig { what, console })
}

fn states(machine: &mut Machine, namespace: &str) -> Result<String, Error> {
    machine.run(&format!("/bin/ip -n {namespace} -s xfrm state"), INSIDE)
}
