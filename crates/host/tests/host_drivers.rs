//! The platform `host` with processors that choose their frequency by themselves, and with cards
//! whose interrupts can be moved.

mod common;

use common::{CPUS, Fixture, take_all};
use wattline_governor::machine::{Machine, Taken};
use wattline_governor::step::Step;
use wattline_host::{Host, NoWorkers};

/// Limits, and the matching preference, of drivers without a settable speed.
#[test]
fn autonomous_processor_gets_limits_and_a_preference() {
    for name in ["intel-pstate-hwp", "amd-pstate-epp"] {
        let fixture = Fixture::with_card(name);
        let before = fixture.snapshot();
        let mut host = fixture.host_of_one();
        host.present();
        let frequencies = host.platform().frequencies.clone();
        let value = |file: &str| fixture.value(&format!("{CPUS}/cpufreq/policy0/{file}"));
        let khz = |index: usize| format!("{:.0}", frequencies[index].get() / 1e3);
        let highest = frequencies.len() - 1;
        for (index, preference) in [
            (highest, "performance"),
            (0, "power"),
            (1, "balance_power"),
            (highest - 1, "balance_performance"),
        ] {
            assert_eq!(host.take(&Step::Frequency { core: 0, index }), Taken::Done, "{name}");
            assert_eq!(value("scaling_min_freq"), khz(index), "{name}");
            assert_eq!(value("scaling_max_freq"), khz(index), "{name}");
            assert_eq!(value("energy_performance_preference"), preference, "{name}");
            assert_eq!(value("scaling_governor"), "powersave", "{name}: else it is locked");
        }
        drop(host);
        assert_eq!(fixture.snapshot(), before, "{name}");
    }
}

/// A queue's interrupt belongs on the CPU of the worker that serves the queue.
#[test]
fn interrupts_follow_their_workers_and_go_back() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let affinity = |interrupt: u32| format!("/proc/irq/{interrupt}/smp_affinity_list");
    for queue in 0..4 {
        let interrupt = 40 + queue;
        fixture.write(&format!("/sys/class/net/eth9/device/msi_irqs/{interrupt}"), "msix");
        fixture.write(&format!("/proc/irq/{interrupt}/eth9-TxRx-{queue}/x"), "");
        fixture.write(&affinity(interrupt), "0-1");
    }
    let mut host = fixture.host(&[1, 0]);
    let values = || [40, 41, 42, 43].map(|interrupt| fixture.value(&affinity(interrupt)));
    assert_eq!(values(), ["0-1"; 4], "looking writes nothing");
    host.present();
    // Worker 0 serves the queues 0 and 2, on CPU 1.
    assert_eq!(values(), ["1", "0", "1", "0"]);
    fixture.write(&affinity(42), "0");
    drop(host);
    assert_eq!(values(), ["0-1", "0-1", "0", "0-1"], "the change by irqbalance stays");
    // Unknown interrupts are reported.
    let other = Fixture::with_card("acpi-cpufreq");
    let missing = other.host(&[0, 1]).status().lock().unwrap().missing.clone();
    let note_start = "interrupts: those of 4 of 4 queues of eth9 are not known";
    assert!(missing.iter().any(|note| note.contains(note_start)), "{missing:?}");
}

/// The uncore follows the fastest core if requested, and is restored.
#[test]
fn the_uncores_upper_limit_goes_with_the_fastest_core() {
    let file = |name: &str| format!("{CPUS}/intel_uncore_frequency/package_00_die_00/{name}");
    for wanted in [true, false] {
        let fixture = Fixture::with_card("intel-pstate-hwp");
        let number = |name: &str| fixture.tree.number::<u64>(file(name)).unwrap();
        let (lowest, highest) = (number("initial_min_freq_khz"), number("max_freq_khz"));
        let before = fixture.snapshot();
        let mut options = fixture.options(&[0]);
        options.layout.workers = 1;
        options.uncore = wanted;
        let mut host = Host::new(options, fixture.session(), Box::new(NoWorkers)).unwrap();
        let mut point = host.present();
        assert_eq!(number("max_freq_khz"), highest, "at full speed as it was");
        assert_eq!(host.platform().can.set_uncore, wanted);
        let fastest = host.platform().fastest();
        let mut last = highest;
        let mut go = |host: &mut Host<_>, index: usize| {
            let mut next = point.clone();
            next.set_frequency(index);
            take_all(host, &point, &next);
            point = next;
        };
        for index in (0..fastest).rev() {
            go(&mut host, index);
            let limit = number("max_freq_khz");
            assert!(limit <= last && limit >= number("min_freq_khz"), "{limit} after {last}");
            last = limit;
        }
        assert_eq!(last, if wanted { lowest } else { highest });
        go(&mut host, fastest);
        assert_eq!(number("max_freq_khz"), highest);
        // A policy may fix it, too.
        if wanted {
            assert_eq!(host.take(&Step::Uncore { index: 0 }), Taken::Done);
            assert_eq!(number("max_freq_khz"), lowest);
        }
        assert!(matches!(host.take(&Step::Uncore { index: 999 }), Taken::Failed { .. }));
        drop(host);
        assert_eq!(fixture.snapshot(), before);
    }
}
