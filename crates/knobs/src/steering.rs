//! CPUs that take the packets of a receive queue (RPS), and CPUs that send by a transmit queue
//! (XPS; Documentation/networking/scaling.rst).

use crate::change::Change;
pub use crate::mask::Mask;
use crate::mask::NET;
use crate::registration::{Recorded, Registration};
use crate::setting::Setting;
use wattline_linux::sysfs::Tree;

/// Returns the settings of an interface's masks of a kind.
pub fn settings(mask: Mask, tree: &Tree, interface: &str) -> Vec<Setting> {
    let queues = tree.numbered(format!("{NET}{interface}/queues"), mask.names().0);
    let setting = |(queue, _)| Setting::Steering { interface: interface.to_owned(), queue, mask };
    queues.into_iter().map(setting).collect()
}

/// Returns the CPUs of a mask; `None` for another text.
pub fn cpus(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for (place, digit) in text.chars().rev().filter(|c| *c != ',').enumerate() {
        let digit = digit.to_digit(16)?;
        cpus.extend((0..4).filter(|bit| digit >> bit & 1 == 1).map(|bit| place as u32 * 4 + bit));
    }
    Some(cpus)
}

/// Returns a mask of these CPUs as the kernel prints it, as wide as `like`; `None` if it has no
/// such CPU.
pub fn mask(like: &str, cpus: &[u32]) -> Option<String> {
    let width = like.chars().filter(|c| *c != ',').count();
    let mut digits = vec![0_u32; width];
    for cpu in cpus {
        *digits.get_mut(width.checked_sub(1 + (*cpu / 4) as usize)?)? |= 1 << (cpu % 4);
    }
    let mut digits = digits.into_iter().filter_map(|digit| char::from_digit(digit, 16));
    Some(like.chars().filter_map(|c| if c == ',' { Some(c) } else { digits.next() }).collect())
}

/// Returns the write that gives a queue to these CPUs; `present` is its present mask. `None` if the
/// mask has no such CPU.
pub fn give(setting: Setting, present: &str, cpus: &[u32], why: &str) -> Option<Change> {
    Some(Change { setting, value: mask(present, cpus)?, why: why.to_owned() })
}

/// The masks.
pub const KNOB: Registration = Registration {
    name: "packet steering",
    label: "steering",
    files: "`/sys/class/net/IF/queues/rx-N/rps_cpus`, `tx-N/xps_cpus`",
    values: "a mask of CPUs",
    write_cost: 10,
    notes: "moves the flows of the queue",
    owns: |setting| matches!(setting, Setting::Steering { .. }),
    recorded: Recorded::NOTHING,
    ..Registration::NOTHING
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_as_wide_as_the_kernel_prints_them() {
        for (like, chosen, text) in [
            ("0", &[0, 1][..], "3"),
            ("00", &[4], "10"),
            ("ffffffff,ffffffff", &[0, 33, 63], "80000002,00000001"),
            ("f,ffffffff", &[35], "8,00000000"),
        ] {
            assert_eq!(mask(like, chosen).as_deref(), Some(text));
            assert_eq!(cpus(text).as_deref(), Some(chosen), "{text}");
        }
        assert_eq!(mask("f", &[4]), None);
        assert_eq!(cpus("3g"), None);
    }

    #[test]
    fn files_read_back_and_others_are_refused() {
        for text in [
            "/sys/class/net/eth0/queues/rx-3/rps_cpus",
            "/sys/class/net/eth0.7/queues/tx-0/xps_cpus",
        ] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
        for text in [
            "/sys/class/net/eth0/queues/rx-3/xps_cpus",
            "/sys/class/net/eth0/queues/rx-03/rps_cpus",
            "/sys/class/net/../queues/rx-3/rps_cpus",
            "/sys/class/net/eth0/queues/rx-3/rps_flow_cnt",
        ] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
    }
}
