//! Advice on changing the number of an interface's queues.

use std::io;
use wattline_linux::ethtool::{self, Channels};

/// Returns the advice that gives an interface this many receive queues, to follow "or".
pub(super) fn remedy(name: &str, wanted: u32) -> String {
    by(&ethtool::channels(name), name, wanted)
}

fn by(channels: &io::Result<Channels>, name: &str, wanted: u32) -> String {
    let combined = format!("`ethtool -L {name} combined {wanted}`");
    let apart = format!("`ethtool -L {name} rx {wanted} tx {wanted}`");
    let other = |why: &str| format!("an interface that can have {wanted} queues ({why})");
    let (most, command) = match channels {
        // The kernel checks that the driver has both functions before it sets anything.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {
            return other(&format!("the driver of {name} does not change its own"));
        }
        Ok(it) if it.combined > 0 => (it.most_combined, combined),
        Ok(it) if it.receive > 0 => (it.most_receive.min(it.most_transmit), apart),
        _ => return format!("{combined} (or {apart}, as `ethtool -l {name}` shows them)"),
    };
    if most > 0 && wanted > most {
        return other(&format!(
            "{name} has {most} at most; a veth gets its limit when it is made, by \
             `numrxqueues {wanted} numtxqueues {wanted}`"
        ));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_linux::namespace::Namespace;

    #[test]
    fn channels_are_named_as_the_driver_counts_them() {
        let none = Channels {
            combined: 0,
            most_combined: 0,
            receive: 0,
            most_receive: 0,
            transmit: 0,
            most_transmit: 0,
        };
        let advice = |channels: Channels, wanted| by(&Ok(channels), "eth0", wanted);
        let combined = Channels { combined: 1, most_combined: 8, ..none };
        assert_eq!(advice(combined, 4), "`ethtool -L eth0 combined 4`");
        assert!(advice(combined, 9).contains("eth0 has 8 at most"), "{}", advice(combined, 9));
        // tg3, for example, counts them separately.
        let (receive, transmit) = (4, 1);
        let apart = Channels { receive, most_receive: 5, transmit, most_transmit: 4, ..none };
        assert_eq!(advice(apart, 4), "`ethtool -L eth0 rx 4 tx 4`");
        assert!(advice(apart, 5).contains("eth0 has 4 at most"), "{}", advice(apart, 5));
        for unknown in [Ok(none), Err(io::Error::from_raw_os_error(1))] {
            let both = by(&unknown, "eth0", 2);
            assert!(
                both.contains("eth0 combined 2`") && both.contains("eth0 rx 2 tx 2`"),
                "{both}"
            );
        }
    }

    #[test]
    fn advice_for_a_veth_is_accepted_by_its_driver() {
        let made = Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        let queues = "numrxqueues 4 numtxqueues 4";
        namespace.ip(&format!("link add v0 {queues} type veth peer name v1 {queues}")).unwrap();
        let (fewer, more) = namespace.enter(|| (remedy("v0", 2), remedy("v0", 8))).unwrap();
        assert!(more.contains("v0 has 4 at most"), "{more}");
        let command: Vec<&str> = fewer.trim_matches('`').split(' ').collect();
        match namespace.run(command[0], &command[1..]) {
            Ok(_) => {}
            Err(error) if error.to_string().contains("No such file") => {
                wattline_needs::tool(format_args!("ethtool: {error}"));
            }
            Err(error) => panic!("{fewer}: {error}"),
        }
    }
}
