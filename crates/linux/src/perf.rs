//! Counters of a system-wide performance monitoring unit, such as the energy counters `power`
//! (perf_event_open(2)). Nothing is sampled.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// `PERF_ATTR_SIZE_VER0`: the oldest `struct perf_event_attr`, which every kernel knows.
const ATTRIBUTES_BYTES: u32 = 64;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// `struct perf_event_attr` as far as version 0 goes.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// An open counter; it counts until it is dropped.
#[derive(Debug)]
pub struct Counter {
    file: File,
}

impl Counter {
    /// Opens the event `config` of the unit with this number (its file `type` in sysfs) on a CPU in
    /// its `cpumask`.
    ///
    /// # Errors
    /// EACCES without CAP_PERFMON (or a low `kernel.perf_event_paranoid`), ENOENT if there is no
    /// such unit or event, ENODEV if the CPU is off-line.
    pub fn open(unit: u32, config: u64, cpu: u32) -> io::Result<Self> {
        let attributes = Attributes {
            kind: unit,
            size: ATTRIBUTES_BYTES,
            config,
            sample_period: 0,
            sample_type: 0,
            read_format: 0,
            flags: 0,
            wakeup_events: 0,
            breakpoint_type: 0,
            config1: 0,
        };
        let cpu = i32::try_from(cpu).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // SAFETY: the kernel reads `size` bytes of the structure, which is `repr(C)`, as long as
        // that and alive during the call. Process -1 with a CPU: the whole of that CPU; group -1:
        // none.
        #[allow(unsafe_code)]
        let result = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                std::ptr::from_ref(&attributes),
                -1 as libc::pid_t,
                cpu as libc::c_int,
                -1 as libc::c_int,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        let Ok(descriptor) = RawFd::try_from(result) else {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just returned this descriptor, which has no other owner.
        #[allow(unsafe_code)]
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { file: File::from(descriptor) })
    }

    /// Returns the count since it was opened. The kernel extends the register to 64 bits.
    ///
    /// # Errors
    /// When the unit is gone with its CPU.
    pub fn read(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_long_as_it_says() {
        assert_eq!(size_of::<Attributes>(), ATTRIBUTES_BYTES as usize);
    }

    #[test]
    fn a_software_clock_counts_and_a_unit_that_is_not_there_is_an_error() {
        // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK: nanoseconds of the CPU.
        match Counter::open(1, 0, 0) {
            Ok(mut counter) => {
                let first = counter.read().unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
                assert!(counter.read().unwrap() > first);
            }
            Err(error) => wattline_needs::machine(format_args!("perf_event_open: {error}")),
        }
        assert!(Counter::open(u32::MAX, 0, 0).is_err());
    }
}
