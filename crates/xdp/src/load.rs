//! Offered load at millions of frames per second, and a sink that counts and drops them.
//!
//! The kernel itself makes the frames: an XDP program is run on copies of one (live frames,
//! Linux 5.18) and redirects each to an interface. The pages of the copies are used again
//! without being reset, so the program writes every header anew: what a router changed in
//! the last round (MAC addresses, TTL, checksum) must not come back.

use crate::bpf::{
    Assembler, BpfError, Condition, Link, Map, MapKind, Program, ProgramKind, Register, Size,
    helper,
};
use rustix::fd::AsFd;
use std::time::Duration;

/// `XDP_DROP`
const XDP_DROP: i32 = 1;
/// `XDP_PASS`
const XDP_PASS: i32 = 2;
/// `XDP_FLAGS_DRV_MODE`
const NATIVE: u32 = 1 << 2;
/// Frames that the kernel makes at a time.
const BATCH: u32 = 64;
/// Bytes of each frame that are written anew: Ethernet, IPv4 and UDP ports, rounded up.
const REWRITTEN: usize = 40;

/// How much time, in nanoseconds, a paced generator makes up for after it was kept from its
/// processor: more would overflow the veth.
const MADE_UP_FOR: i32 = 256_000;
/// Where the generator's state has the number of frames sent.
const SENT: i16 = 0;
/// Where it has the time at which the next is due.
const DUE: i16 = 8;

/// Looks at the clock until a frame is due, some 20 ns each.
const LOOKS: i32 = 200;

/// How often a frame is sent.
#[derive(Debug, Clone, Copy)]
struct Pace {
    gap: Duration,
    /// Whether a frame waits until it is due; else it is dropped.
    waits: bool,
}

/// Sends copies of a frame out of an interface.
#[derive(Debug)]
pub struct LiveGenerator {
    program: Program,
    frame: Vec<u8>,
    state: Map,
}

impl LiveGenerator {
    /// Prepares to send `frame` out of an interface of this thread's network namespace: one in
    /// `gap` (up to a second), or as many as it can without one. A veth's peer must run NAPI (an
    /// XDP program or GRO) or it takes nothing.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Panics
    /// When the frame is shorter than 60 bytes.
    pub fn new(ifindex: u32, frame: &[u8], gap: Option<Duration>) -> Result<Self, BpfError> {
        Self::with_pace(ifindex, frame, gap.map(|gap| Pace { gap, waits: false }))
    }

    /// The same, but it waits for the time of a frame in place of making it in vain: pages of frames
    /// that are not sent go back past a lock that whoever frees those that are sent needs, too. For
    /// gaps of up to a microsecond: it looks at the clock so many times at most.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Panics
    /// When the frame is shorter than 60 bytes.
    pub fn waiting(ifindex: u32, frame: &[u8], gap: Duration) -> Result<Self, BpfError> {
        Self::with_pace(ifindex, frame, Some(Pace { gap, waits: true }))
    }

    fn with_pace(ifindex: u32, frame: &[u8], pace: Option<Pace>) -> Result<Self, BpfError> {
        assert!(frame.len() >= 60, "the shortest Ethernet frame has 60 bytes");
        let state = Map::create(MapKind::Array, "wl_generator", 4, 16, 1)?;
        let code = rewrite_and_redirect(&state, ifindex, frame, pace);
        let program = Program::load(ProgramKind::Xdp, "wl_generator", &code)?;
        Ok(Self { program, frame: frame.to_vec(), state })
    }

    /// Makes `count` copies from the calling thread, as fast as it goes, and sends those that are
    /// due; what the other side has no room for is lost there. Bounded by the count: ask again
    /// for more.
    ///
    /// # Errors
    /// When the kernel has no live frames (Linux 5.18), or a signal came (EINTR).
    pub fn send(&self, count: u32) -> Result<(), BpfError> {
        self.program.run_live(&self.frame, count, BATCH)
    }

    /// Frames sent so far.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn sent(&self) -> Result<u64, BpfError> {
        let state = self.state.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        Ok(state.first_chunk().map_or(0, |sent| u64::from_ne_bytes(*sent)))
    }
}

fn rewrite_and_redirect(state: &Map, ifindex: u32, frame: &[u8], pace: Option<Pace>) -> Vec<u64> {
    use Register::{R0, R1, R2, R3, R5, R6, R7, R8, R9};
    let mut a = Assembler::new();
    let drop = a.label();
    a.copy(R6, R1);
    a.map_value(R7, state.as_fd());
    if let Some(Pace { gap, waits }) = pace {
        let gap = gap.as_nanos().min(1_000_000_000) as i32;
        let (look, in_time, is_due) = (a.label(), a.label(), a.label());
        a.set(R9, LOOKS);
        a.place(look);
        a.call(helper::KTIME_GET_NS);
        a.load(Size::Double, R8, R7, DUE);
        a.jump_if_register(R8, Condition::LessOrEqual, R0, is_due);
        if waits {
            a.add(R9, -1);
            a.jump_if(R9, Condition::NotEqual, 0, look);
        }
        a.jump(drop);
        a.place(is_due);
        a.add(R8, gap);
        a.add(R0, -MADE_UP_FOR);
        a.jump_if_register(R8, Condition::Greater, R0, in_time);
        a.copy(R8, R0);
        a.place(in_time);
        a.store(Size::Double, R7, DUE, R8);
    }
    a.load(Size::Word, R2, R6, 0);
    a.load(Size::Word, R3, R6, 4);
    a.copy(R5, R2);
    a.add(R5, REWRITTEN as i32);
    a.jump_if_register(R5, Condition::Greater, R3, drop);
    let (words, _) = frame[..REWRITTEN].as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        a.set_64(R5, u64::from_ne_bytes(*word));
        a.store(Size::Double, R2, 8 * index as i16, R5);
    }
    a.load(Size::Double, R5, R7, SENT);
    a.add(R5, 1);
    a.store(Size::Double, R7, SENT, R5);
    // Interface numbers are positive and have 31 bits.
    a.set(R1, ifindex as i32);
    a.set(R2, 0);
    a.call(helper::REDIRECT);
    a.exit();
    a.place(drop);
    a.set(R0, XDP_DROP);
    a.exit();
    a.finish()
}

/// Counts every frame that an interface receives, and drops it, in the driver.
#[derive(Debug)]
pub struct CountingSink {
    frames: Map,
    _link: Link,
}

impl CountingSink {
    /// Puts the sink on an interface of this thread's network namespace, until dropped.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN; when the driver has no XDP.
    pub fn attach(ifindex: u32) -> Result<Self, BpfError> {
        let frames = Map::create(MapKind::PerCpuArray, "wl_sink", 4, 8, 1)?;
        let program = Program::load(ProgramKind::Xdp, "wl_sink", &count_and_drop(&frames))?;
        let link = program.attach(ifindex, NATIVE)?;
        Ok(Self { frames, _link: link })
    }

    /// Frames so far.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn frames(&self) -> Result<u64, BpfError> {
        let values = self.frames.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        let (per_cpu, _) = values.as_chunks::<8>();
        Ok(per_cpu.iter().map(|value| u64::from_ne_bytes(*value)).sum())
    }
}

/// Makes an interface take frames that XDP programs send, by a program of its own that passes all:
/// a veth then runs NAPI, without merging what it receives as GRO would.
#[derive(Debug)]
pub struct PassAll(#[allow(dead_code, reason = "attached until dropped")] Link);

impl PassAll {
    /// Puts the program on an interface of this thread's network namespace, until dropped.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN; when the driver has no XDP.
    pub fn attach(ifindex: u32) -> Result<Self, BpfError> {
        let mut a = Assembler::new();
        a.set(Register::R0, XDP_PASS);
        a.exit();
        let program = Program::load(ProgramKind::Xdp, "wl_pass", &a.finish())?;
        Ok(Self(program.attach(ifindex, NATIVE)?))
    }
}

fn count_and_drop(frames: &Map) -> Vec<u64> {
    use Register::{R0, R1, R2, R10};
    let mut a = Assembler::new();
    let uncounted = a.label();
    a.store_value(Size::Word, R10, -4, 0);
    a.map(R1, frames.as_fd());
    a.copy(R2, R10);
    a.add(R2, -4);
    a.call(helper::MAP_LOOKUP);
    a.jump_if(R0, Condition::Equal, 0, uncounted);
    a.load(Size::Double, R1, R0, 0);
    a.add(R1, 1);
    a.store(Size::Double, R0, 0, R1);
    a.place(uncounted);
    a.set(R0, XDP_DROP);
    a.exit();
    a.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_linux::namespace::{Namespace, interface_index};

    #[test]
    fn every_frame_that_is_sent_is_counted_with_its_header_intact() {
        let name = format!("wl-load-{}", std::process::id());
        let namespace = match Namespace::create(&name) {
            Ok(namespace) => namespace,
            Err(error) => return println!("skipped: {error}"),
        };
        namespace.ip("link add x0 type veth peer name x1").unwrap();
        namespace.ip("link set x0 up").unwrap();
        namespace.ip("link set x1 up").unwrap();
        namespace
            .enter(|| {
                let sink = CountingSink::attach(interface_index("x1").unwrap()).unwrap();
                let generator =
                    LiveGenerator::new(interface_index("x0").unwrap(), &[7; 60], None).unwrap();
                // Fewer than a veth's ring holds, so that none is lost.
                generator.send(200).unwrap();
                let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
                while sink.frames().unwrap() < 200 && std::time::Instant::now() < deadline {
                    std::thread::yield_now();
                }
                assert!(sink.frames().unwrap() >= 200);
                assert_eq!(generator.sent().unwrap(), 200);

                // None is made in vain: all but those of the time that is made up for are waited for.
                let gap = std::time::Duration::from_nanos(700);
                let waiting =
                    LiveGenerator::waiting(interface_index("x0").unwrap(), &[7; 60], gap).unwrap();
                let began = std::time::Instant::now();
                waiting.send(1000).unwrap();
                assert_eq!(waiting.sent().unwrap(), 1000);
                assert!(began.elapsed() > 600 * gap);

                let gap = Some(std::time::Duration::from_millis(500));
                let seldom =
                    LiveGenerator::new(interface_index("x0").unwrap(), &[7; 60], gap).unwrap();
                let began = std::time::Instant::now();
                // One at once, one for the time that is made up for.
                seldom.send(1000).unwrap();
                let most = 2 + began.elapsed().as_millis() as u64 / 500;
                let sent = seldom.sent().unwrap();
                assert!((1..=most).contains(&sent), "{sent} of at most {most}");
            })
            .unwrap();
    }

    #[test]
    fn a_round_begins_with_a_fresh_header() {
        let state = match Map::create(MapKind::Array, "wl_test", 4, 16, 1) {
            Ok(state) => state,
            Err(error @ BpfError::MissingCapability { .. }) => return println!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        let code = rewrite_and_redirect(&state, 1, &[9; 60], None);
        let program = match Program::load(ProgramKind::Xdp, "wl_test", &code) {
            Ok(program) => program,
            Err(error @ BpfError::MissingCapability { .. }) => return println!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        let run = program.test_run(&[1; 60]).unwrap();
        assert_eq!(run.packet[..REWRITTEN], [9; REWRITTEN]);
        assert_eq!(run.packet[REWRITTEN..], [1; 20]);
    }
}
