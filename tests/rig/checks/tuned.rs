//! `wattline trial` between two profiles of Debian's TuneD, killed at random moments: the profile from before
//! is active again, and its frequencies.

use super::ipsec::write;
use super::knobs::SETTINGS;
use super::server::{HIGHEST, restored, wait_for};
use super::{Checks, INSIDE, Witness, prepare};
use std::path::Path;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Options, Rig};

const LIMIT: Duration = Duration::from_secs(3600);
/// Profile of the machine before; neither of the trial's.
const BEFORE: &str = "latency-performance";
const SETTING_FILES: [(&str, &str); 2] = [
    ("powersave", include_str!("../../../examples/trial/tuned-powersave.toml")),
    (
        "throughput-performance",
        include_str!("../../../examples/trial/tuned-throughput-performance.toml"),
    ),
];
const KILLS: u64 = 20;
const ACTIVE: &str = "cat /etc/tuned/active_profile";

/// Boots a machine with TuneD, and kills trials between its profiles.
///
/// # Errors
/// When the machine fails; a check that does not hold is no error.
pub fn tuned(rig: &Rig, wattline: &Path, checks: &mut Checks) -> Result<(), Error> {
    let programs = vec![("wattline", wattline.to_owned())];
    let options =
        Options { programs, cards: 1, tuned: true, limit: Some(LIMIT), ..Options::default() };
    let mut machine = Machine::boot(rig, &options)?;
    prepare(&mut machine)?;
    for folder in ["proc", "sys", "dev"] {
        machine.run(&format!("mount -o bind /{folder} /tuned/{folder}"), INSIDE)?;
    }
    machine.run("mkdir -p /etc; ln -s /tuned/etc/tuned /etc/tuned", INSIDE)?;
    write(
        &mut machine,
        "/bin/tuned-adm",
        "#!/bin/sh\nexec chroot /tuned /usr/sbin/tuned-adm \"$@\"",
    )?;
    machine.run("chmod +x /bin/tuned-adm", INSIDE)?;
    for (name, text) in SETTING_FILES {
        let keys: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        // Python starts slowly on an emulated processor.
        let text = format!("{}\nlimit = \"2min\"", keys.join("\n"));
        write(&mut machine, &format!("/tmp/{name}.toml"), &text)?;
    }
    machine.run(&format!("tuned-adm profile {BEFORE}"), INSIDE)?;
    let resting = wait_for(&mut machine, HIGHEST)?;
    let before = machine.run(SETTINGS, INSIDE)?;
    let mut random = 17_u64;
    let (mut left, mut entered) = (0, 0);
    for _ in 0..KILLS {
        let line = "(sh -c 'echo $$ > /tmp/pid; exec wattline trial /tmp/powersave.toml \
                    /tmp/throughput-performance.toml --block 8s --pairs 8 --pressure-limit 1' \
                    > /tmp/trial.log 2>&1) & true";
        machine.run(line, INSIDE)?;
        // Once a profile of the trial is in force; blocks of both alternate.
        let wait = format!(
            "for i in $(seq 200); do [ \"$({ACTIVE})\" = {BEFORE} ] || break; sleep 0.5; done"
        );
        machine.run(&wait, INSIDE)?;
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(random >> 33 & 0x7fff));
        let killed = machine.run(&format!("kill -KILL $(cat /tmp/pid); {ACTIVE}"), INSIDE)?;
        entered += u32::from(killed.trim() != BEFORE);
        // The watchdog undoes the setting, and ends.
        machine.run(
            "for i in $(seq 100); do pidof wattline > /dev/null || break; sleep 1; done",
            INSIDE,
        )?;
        let after = machine.run(ACTIVE, INSIDE)?;
        if after.trim() != BEFORE {
            left += 1;
            println!("{}", machine.run("cat /tmp/trial.log; true", INSIDE)?);
        }
    }
    println!("{}", machine.run("tail -n 3 /tmp/trial.log; tuned-adm active; true", INSIDE)?);
    checks.equal(
        "trials killed under a profile of theirs",
        Witness::Inside,
        &true,
        &(entered >= 15),
    );
    checks.equal("killed trials that left their profile", Witness::Inside, &0, &left);
    let undo = machine.run("wattline restore", INSIDE)?;
    checks.equal("left to undo", Witness::Inside, &"nothing to undo", &undo.trim());
    restored(&mut machine, checks, "the killed trials", resting, &before)?;
    machine.power_off()
}
