//! Card settings on devices that the kernel makes: a veth has channels, a tap a limit of
//! coalesced packets.

use wattline_linux::ethtool::{self, Coalesce};
use wattline_linux::namespace::Namespace;
use wattline_linux::napi::{self, Napi};

fn namespace() -> Option<Namespace> {
    let made = Namespace::for_test(&[
        "link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1",
        "tuntap add dev t0 mode tap",
    ]);
    made.map_err(wattline_needs::rights).ok()
}

#[test]
fn settings_are_read_and_written_one_at_a_time() {
    let Some(namespace) = namespace() else { return };
    let (channels, written, refused, table) = namespace
        .enter(|| {
            let written = ethtool::set_coalesce("t0", Coalesce::RxFrames, 16)
                .and_then(|()| ethtool::coalesce("t0"));
            let refused = ethtool::set_coalesce("t0", Coalesce::RxUsecs, 50);
            assert_eq!(ethtool::driver("v0").unwrap(), "veth");
            assert!(ethtool::set_combined_channels("v0", 4097).is_err());
            (ethtool::channels("v0"), written, refused, ethtool::indirection_table("v0"))
        })
        .unwrap();
    let channels = channels.unwrap();
    assert_eq!((channels.receive, channels.transmit), (4, 4));
    assert_eq!(table.unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    match written {
        Ok(values) => {
            assert_eq!(values.get(Coalesce::RxFrames), 16);
            // The program `ethtool` shows the same.
            if let Ok(seen) = namespace.run("ethtool", &["-c", "t0"]) {
                let line = seen.lines().find_map(|line| line.strip_prefix("rx-frames:"));
                assert_eq!(line.map(str::trim), Some("16"), "{seen}");
            }
            assert!(refused.is_err(), "a tap has no time to wait");
        }
        Err(error) => wattline_needs::machine(format_args!("no coalescing on a tap here: {error}")),
    }
}

/// A veth uses NAPI once it merges packets (GRO); its instances then have settings of their own.
#[test]
fn settings_of_one_napi_instance_leave_the_others_alone() {
    let lines = [
        "link add v0 numtxqueues 2 numrxqueues 2 type veth peer name v1",
        "link set v0 up",
        "link set v1 up",
    ];
    let made = Namespace::for_test(&lines).and_then(|namespace| {
        namespace.run("ethtool", &["-K", "v0", "gro", "on"])?;
        Ok(namespace)
    });
    let Ok(namespace) = made.map_err(wattline_needs::rights) else { return };
    let all = || [0, 1].map(|queue| Napi::ALL.map(|setting| napi::get("v0", queue, setting).ok()));
    let (first, before, outcome, after) = namespace
        .enter(|| {
            let first = napi::get("v0", 1, Napi::GroFlushTimeout);
            let before = all();
            let outcome = napi::set("v0", 1, Napi::GroFlushTimeout, 200_000)
                .and_then(|()| napi::set("v0", 1, Napi::DeferHardIrqs, 3));
            (first, before, outcome, all())
        })
        .unwrap();
    if let Err(error) = first {
        return wattline_needs::machine(format_args!(
            "this kernel does not show NAPI settings: {error}"
        ));
    }
    outcome.unwrap();
    assert_eq!(after[0], before[0]);
    assert_eq!(after[1], [Some(3), Some(200_000), before[1][2]]);
}
