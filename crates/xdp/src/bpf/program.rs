//! BPF programs: loading, attaching by a link, and running them on a given packet.

use super::error::BpfError;
use super::link::Link;
use super::syscall::{Attributes, Command};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use std::ffi::CStr;
use std::time::Duration;

/// Purpose of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// Runs in the driver on each received frame; understands frames in fragments.
    Xdp,
    /// Runs on each packet that leaves an interface (TCX, Linux 6.6).
    TcxEgress,
    /// Runs whenever the kernel passes a tracepoint.
    RawTracepoint,
    /// The same, by the tracepoint's number among the kernel's types: it reads structures behind
    /// its arguments without a call (Linux 5.5).
    TypedTracepoint,
}

impl ProgramKind {
    /// `enum bpf_prog_type`
    fn program_type(self) -> u32 {
        match self {
            Self::Xdp => 6,
            Self::TcxEgress => 3,
            Self::RawTracepoint => 17,
            Self::TypedTracepoint => 26,
        }
    }

    /// `enum bpf_attach_type`; 0 if none is required.
    fn attach_type(self) -> u32 {
        match self {
            Self::Xdp => 37,
            Self::TcxEgress => 47,
            Self::RawTracepoint => 0,
            Self::TypedTracepoint => 23,
        }
    }

    /// `BPF_F_XDP_HAS_FRAGS` (Linux 5.18): without it, an interface with jumbo frames
    /// refuses the program.
    fn load_flags(self) -> u32 {
        match self {
            Self::Xdp => 1 << 5,
            Self::TcxEgress | Self::RawTracepoint | Self::TypedTracepoint => 0,
        }
    }

    /// Returns the capabilities that loading and attaching it needs.
    fn capabilities(self) -> CapabilitySet {
        match self {
            Self::Xdp | Self::TcxEgress => CapabilitySet::BPF | CapabilitySet::NET_ADMIN,
            Self::RawTracepoint | Self::TypedTracepoint => {
                CapabilitySet::BPF | CapabilitySet::PERFMON
            }
        }
    }
}

/// Room for the verifier's messages.
const LOG_BYTES: usize = 1 << 18;
/// `BPF_F_TEST_RUN_ON_CPU`.
const TEST_RUN_ON_CPU: u32 = 1 << 0;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18.
const TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

/// Most attempts to load a program: the verifier gives up with EAGAIN when a signal is pending
/// (`do_check` in `kernel/bpf/verifier.c`). The signal is handled between two calls. Only signals
/// that arrive during each of them, such as a profiler's, exhaust the attempts.
const LOAD_ATTEMPTS: usize = 30;

/// Repeats a call while signals interrupt it.
fn unless_interrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut result = call();
    for _ in 1..LOAD_ATTEMPTS {
        if !matches!(result, Err(Errno::AGAIN)) {
            break;
        }
        result = call();
    }
    result
}

/// A program in the kernel's form.
pub(super) struct Code<'a> {
    pub(super) kind: ProgramKind,
    /// Number of the tracepoint of a [`ProgramKind::TypedTracepoint`] among the kernel's types.
    pub(super) tracepoint: u32,
    /// Letters, digits and `_`; the kernel shows the first 15.
    pub(super) name: &'a str,
    pub(super) instructions: &'a [u64],
    /// Descriptors of modules, to which calls of their functions refer by index.
    pub(super) modules: &'a [i32],
    /// Some helpers require a licence that is compatible with the kernel's.
    pub(super) licence: &'a CStr,
}

/// A program in the kernel; it lives until this and its links are gone.
#[derive(Debug)]
pub struct Program {
    descriptor: OwnedFd,
    kind: ProgramKind,
    name: String,
}

/// Result of a program on a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// Its return value, such as `XDP_PASS`.
    pub result: u32,
    /// The packet after it.
    pub packet: Vec<u8>,
    /// Run time, on average if it ran several times.
    pub duration: Duration,
}

impl Program {
    /// Loads a program.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN; when the verifier refuses it, with its messages.
    pub(super) fn load(code: &Code<'_>) -> Result<Self, BpfError> {
        let Code { kind, tracepoint, name, instructions, modules, licence } = *code;
        let attributes = || {
            Attributes::new()
                .word(0, kind.program_type())
                .word(4, instructions.len() as u32)
                .input(8, instructions)
                .input(16, licence.to_bytes_with_nul())
                .word(44, kind.load_flags())
                .name(48, name)
                .word(68, kind.attach_type())
                .word(108, tracepoint)
                .input(120, modules)
        };
        let loaded = |descriptor| Self { descriptor, kind, name: name.to_owned() };
        match unless_interrupted(|| attributes().call_for_descriptor(Command::ProgramLoad)) {
            Ok(descriptor) => Ok(loaded(descriptor)),
            Err(errno @ (Errno::INVAL | Errno::ACCESS | Errno::FAULT | Errno::TOOBIG)) => {
                // Repeated for the verifier's messages.
                let mut log = vec![0; LOG_BYTES];
                let length = log.len() as u32;
                let result = unless_interrupted(|| {
                    attributes()
                        .word(24, 1)
                        .word(28, length)
                        .output(32, &mut log)
                        .call_for_descriptor(Command::ProgramLoad)
                });
                if let Ok(descriptor) = result {
                    return Ok(loaded(descriptor));
                }
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                let log = String::from_utf8_lossy(&log[..end]).trim_end().to_owned();
                if log.is_empty() {
                    let action = format!("loading the program {name}");
                    return Err(BpfError::MissingFeature {
                        action,
                        feature: kind.feature(),
                        source: errno,
                    });
                }
                Err(BpfError::Rejected { name: name.to_owned(), log, source: errno })
            }
            Err(errno) => {
                let action = format!("loading the program {name}");
                Err(BpfError::new(action, kind.capabilities(), errno))
            }
        }
    }

    /// Attaches a program to the tracepoint of this name, which must be its own if it was loaded
    /// for one.
    ///
    /// # Errors
    /// [`BpfError::System`] with ENOENT if the kernel has no such tracepoint.
    pub fn attach_tracepoint(&self, tracepoint: &CStr) -> Result<Link, BpfError> {
        let mut attributes = Attributes::new().word(8, self.descriptor.as_raw_fd() as u32);
        if self.kind == ProgramKind::RawTracepoint {
            attributes = attributes.input(0, tracepoint.to_bytes_with_nul());
        }
        let opened = attributes.call_for_descriptor(Command::RawTracepointOpen);
        let descriptor = opened.map_err(|errno| {
            let action = format!("attaching {} to {}", self.name, tracepoint.to_string_lossy());
            BpfError::new(action, self.kind.capabilities(), errno)
        })?;
        Ok(Link::new(descriptor))
    }

    /// Attaches the program to an interface, with the `flags` of `BPF_LINK_CREATE`.
    ///
    /// # Errors
    /// [`BpfError::System`] with EBUSY or EEXIST when another program is attached there, with
    /// EOPNOTSUPP or EINVAL when the driver does not support it.
    pub fn attach(&self, ifindex: u32, flags: u32) -> Result<Link, BpfError> {
        let mut attributes = Attributes::new()
            .word(0, self.descriptor.as_raw_fd() as u32)
            .word(4, ifindex)
            .word(8, self.kind.attach_type())
            .word(12, flags);
        let descriptor = attributes.call_for_descriptor(Command::LinkCreate).map_err(|errno| {
            let action = format!("attaching {} to interface {ifindex}", self.name);
            BpfError::new(action, self.kind.capabilities(), errno)
        })?;
        Ok(Link::new(descriptor))
    }

    /// Runs the program once on a packet, without any interface (`BPF_PROG_TEST_RUN`).
    ///
    /// # Errors
    /// When the packet is shorter than an Ethernet header or longer than a page allows.
    pub fn test_run(&self, packet: &[u8]) -> Result<TestRun, BpfError> {
        self.test_runs(packet, 1)
    }

    /// Runs the program `count` times, each on the packet that the previous run left.
    ///
    /// # Errors
    /// As [`Self::test_run`].
    pub fn test_runs(&self, packet: &[u8], count: u32) -> Result<TestRun, BpfError> {
        let mut output = vec![0; packet.len() + 256];
        let room = output.len() as u32;
        let mut attributes = Attributes::new()
            .word(0, self.descriptor.as_raw_fd() as u32)
            .word(8, packet.len() as u32)
            .word(12, room)
            .input(16, packet)
            .output(24, &mut output)
            .word(32, count);
        self.run(&mut attributes)?;
        let (result, length) = (attributes.read_word(4), attributes.read_word(12));
        let duration = Duration::from_nanos(attributes.read_word(36).into());
        output.truncate(length as usize);
        Ok(TestRun { result, packet: output, duration })
    }

    /// Runs a [`ProgramKind::RawTracepoint`] once on a CPU with these arguments (Linux 5.10).
    ///
    /// # Errors
    /// ENXIO if the CPU is offline.
    pub fn test_tracepoint(&self, cpu: u32, arguments: &[u64]) -> Result<(), BpfError> {
        let mut attributes = Attributes::new()
            .word(0, self.descriptor.as_raw_fd() as u32)
            .word(40, size_of_val(arguments) as u32)
            .input(48, arguments)
            .word(64, TEST_RUN_ON_CPU)
            .word(68, cpu);
        self.run(&mut attributes)
    }

    /// Runs the XDP program `count` times on live frames that are copies of `packet`: redirected or
    /// passed frames are really sent or received (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18).
    /// Returns when all have been handled, in batches of `batch` frames, at most 256.
    ///
    /// # Errors
    /// When the kernel lacks it, or a signal interrupts it (EINTR).
    pub fn run_live(&self, packet: &[u8], count: u32, batch: u32) -> Result<(), BpfError> {
        let mut attributes = Attributes::new()
            .word(0, self.descriptor.as_raw_fd() as u32)
            .word(8, packet.len() as u32)
            .input(16, packet)
            .word(32, count)
            .word(64, TEST_XDP_LIVE_FRAMES)
            .word(72, batch);
        self.run(&mut attributes)
    }

    fn run(&self, attributes: &mut Attributes<'_>) -> Result<(), BpfError> {
        attributes.call(Command::ProgramTestRun).map(|_| ()).map_err(|errno| {
            let needed = self.kind.capabilities();
            BpfError::new(format!("running the program {}", self.name), needed, errno)
        })
    }
}

impl ProgramKind {
    fn feature(self) -> &'static str {
        match self {
            Self::Xdp => "XDP programs with fragments (Linux 5.18)",
            Self::TcxEgress => "TCX (Linux 6.6)",
            Self::RawTracepoint => "raw tracepoints (CONFIG_BPF_EVENTS, Linux 4.17)",
            Self::TypedTracepoint => "tracepoints with types (CONFIG_BPF_EVENTS, Linux 5.5)",
        }
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{LOAD_ATTEMPTS, unless_interrupted};
    use rustix::io::Errno;

    /// Makes a call that signals interrupt this many times before it ends with `last`. Returns its
    /// result and the number of attempts.
    fn interrupted(times: usize, last: Result<u8, Errno>) -> (Result<u8, Errno>, usize) {
        let mut calls = 0;
        let result = unless_interrupted(|| {
            calls += 1;
            if calls > times { last } else { Err(Errno::AGAIN) }
        });
        (result, calls)
    }

    #[test]
    fn signal_during_verification_is_no_refusal() {
        assert_eq!(interrupted(0, Ok(7)), (Ok(7), 1));
        assert_eq!(interrupted(2, Ok(7)), (Ok(7), 3));
        assert_eq!(interrupted(2, Err(Errno::ACCESS)), (Err(Errno::ACCESS), 3));
    }

    #[test]
    fn endless_signals_are_reported() {
        let expected = (Err(Errno::AGAIN), LOAD_ATTEMPTS);
        assert_eq!(interrupted(usize::MAX, Ok(7)), expected);
    }
}
