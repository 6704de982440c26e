//! Offered load at millions of frames per second, and a sink that counts and drops them.
//!
//! The kernel itself generates the frames: an XDP program runs on copies of one frame (live frames,
//! Linux 5.18) and redirects each to an interface. The pages of the copies are reused without being
//! reset, so the program rewrites every header: changes by a router in the last round (MAC
//! addresses, TTL, checksum) must not remain.

use crate::bpf::{BpfError, Link, Map, Program, object};
use std::time::Duration;

/// `XDP_FLAGS_DRV_MODE`
const NATIVE: u32 = 1 << 2;
/// Frames that the kernel generates at a time.
const BATCH: u32 = 64;
/// Bytes of each frame that are rewritten, as in `bpf/generator.h`.
const REWRITTEN: usize = 40;

/// Rate at which a frame is sent.
#[derive(Debug, Clone, Copy)]
struct Pace {
    gap: Duration,
    /// True if a frame waits until it is due; otherwise it is dropped.
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
    /// Prepares to send `frame` out of an interface of this thread's network namespace: one frame
    /// per `gap` (up to a second), or as many as possible without a gap. A veth's peer must run
    /// NAPI (an XDP program or GRO); otherwise it takes no frame.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Panics
    /// When the frame is shorter than 60 bytes.
    pub fn new(ifindex: u32, frame: &[u8], gap: Option<Duration>) -> Result<Self, BpfError> {
        Self::with_pace(ifindex, frame, gap.map(|gap| Pace { gap, waits: false }))
    }

    /// Does the same, but waits until a frame is due instead of dropping frames: freeing dropped
    /// frames takes a lock that the receiver needs to free sent frames. For gaps of up to a
    /// microsecond, since the number of clock readings is limited.
    ///
    /// # Errors
    /// Without CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.
    ///
    /// # Panics
    /// When the frame is shorter than 60 bytes.
    pub fn waiting(ifindex: u32, frame: &[u8], gap: Duration) -> Result<Self, BpfError> {
        Self::with_pace(ifindex, frame, Some(Pace { gap, waits: true }))
    }

    fn with_pace(ifindex: u32, frame: &[u8], pace: Option<Pace>) -> Result<Self, BpfError> {
        assert!(frame.len() >= 60, "the shortest Ethernet frame has 60 bytes");
        let gap = pace.map_or(0, |pace| pace.gap.as_nanos().min(1_000_000_000) as u64);
        let waits = pace.is_some_and(|pace| pace.waits);
        let mut object = if waits { object!("patient") } else { object!("generator") }?;
        object.set(&[
            ("out", &ifindex.to_ne_bytes()),
            ("gap", &gap.to_ne_bytes()),
            ("start", &frame[..REWRITTEN]),
        ])?;
        let state = object.create(".data.generator")?;
        let program = object.load(&[&state])?;
        Ok(Self { program, frame: frame.to_vec(), state })
    }

    /// Makes `count` copies from the calling thread, as fast as possible, and sends those that are
    /// due. Frames for which the other side has no room are lost.
    ///
    /// # Errors
    /// When the kernel has no live frames (Linux 5.18), or a signal interrupts it (EINTR).
    pub fn send(&self, count: u32) -> Result<(), BpfError> {
        self.program.run_live(&self.frame, count, BATCH)
    }

    /// Returns the number of frames sent so far.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn sent(&self) -> Result<u64, BpfError> {
        let state = self.state.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        Ok(state.first_chunk().map_or(0, |sent| u64::from_ne_bytes(*sent)))
    }
}

/// Counts every frame that an interface receives, and drops it, in the driver.
#[derive(Debug)]
pub struct CountingSink {
    frames: Map,
    _link: Link,
}

impl CountingSink {
    /// Attaches the sink to an interface of this thread's network namespace, until dropped.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN; when the driver has no XDP.
    pub fn attach(ifindex: u32) -> Result<Self, BpfError> {
        let object = object!("sink")?;
        let frames = object.create("wl_frames")?;
        let link = object.load(&[&frames])?.attach(ifindex, NATIVE)?;
        Ok(Self { frames, _link: link })
    }

    /// Returns the number of frames so far.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn frames(&self) -> Result<u64, BpfError> {
        let values = self.frames.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        let (per_cpu, _) = values.as_chunks::<8>();
        Ok(per_cpu.iter().map(|value| u64::from_ne_bytes(*value)).sum())
    }
}

/// A program that passes all frames, which makes an interface take frames from XDP programs: a veth
/// then runs NAPI, without merging received packets as GRO would.
#[derive(Debug)]
pub struct PassAll(#[allow(dead_code, reason = "attached until dropped")] Link);

impl PassAll {
    /// Attaches the program to an interface of this thread's network namespace, until dropped.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN; when the driver has no XDP.
    pub fn attach(ifindex: u32) -> Result<Self, BpfError> {
        Ok(Self(object!("pass")?.load(&[])?.attach(ifindex, NATIVE)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_linux::namespace::{Namespace, interface_index};

    #[test]
    fn every_frame_that_is_sent_is_counted_with_its_header_intact() {
        let made = Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        namespace.ip("link add x0 type veth peer name x1").unwrap();
        namespace.ip("link set x0 up").unwrap();
        namespace.ip("link set x1 up").unwrap();
        namespace
            .enter(|| {
                let sink = CountingSink::attach(interface_index("x1").unwrap()).unwrap();
                let generator =
                    LiveGenerator::new(interface_index("x0").unwrap(), &[7; 60], None).unwrap();
                // Fewer than a veth's ring holds, so that no frame is lost.
                generator.send(200).unwrap();
                let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
                while sink.frames().unwrap() < 200 && std::time::Instant::now() < deadline {
                    std::thread::yield_now();
                }
                assert!(sink.frames().unwrap() >= 200);
                assert_eq!(generator.sent().unwrap(), 200);

                // No frame is dropped: the generator waits for all except those that make up for
                // lost time.
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
                // One at once, one to make up for lost time.
                seldom.send(1000).unwrap();
                let most = 2 + began.elapsed().as_millis() as u64 / 500;
                let sent = seldom.sent().unwrap();
                assert!((1..=most).contains(&sent), "{sent} of at most {most}");
            })
            .unwrap();
    }

    #[test]
    fn round_begins_with_a_fresh_header() {
        let generator = match LiveGenerator::new(1, &[9; 60], None) {
            Ok(generator) => generator,
            Err(error @ BpfError::MissingCapability { .. }) => {
                return wattline_needs::rights(&error);
            }
            Err(error) => panic!("{error}"),
        };
        let run = generator.program.test_run(&[1; 60]).unwrap();
        assert_eq!(run.packet[..REWRITTEN], [9; REWRITTEN]);
        assert_eq!(run.packet[REWRITTEN..], [1; 20]);
    }
}
