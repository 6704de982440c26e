//! A capture as a port queue.

use super::source::Source;
use super::status::CaptureStatus;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortId, PortQueue};
use wattline_traffic::capture::{CaptureError, LinkType, Problem, Resolution, Writer};

/// Files of a capture port, and options of their replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureOptions {
    /// Capture of received frames (pcap or pcapng); `None` to receive nothing.
    pub read: Option<PathBuf>,
    /// Capture of sent frames (pcap); `None` to only count them.
    pub write: Option<PathBuf>,
    /// True to receive frames at the times of the capture, false for as fast as possible.
    pub paced: bool,
    /// True to pad packets that were cut by a snap length with zeros to their original length,
    /// false to receive them as captured.
    pub original_length: bool,
    /// The port's MAC address, for captures without Ethernet headers.
    pub mac: [u8; 6],
}

/// The one queue of a capture port.
pub struct CaptureQueue {
    port: PortId,
    source: Option<Source>,
    /// Timer of a paced capture, readable when the next frame is due.
    pace: Option<Pace>,
    writer: Option<Writer>,
    /// True once writing has failed: no more frames are accepted.
    broken: bool,
    status: CaptureStatus,
    counters: PortCounters,
}

struct Pace {
    timer: OwnedFd,
    /// Start of the replay: the first attempt to receive.
    start: Option<Instant>,
}

impl CaptureQueue {
    /// Opens the files.
    ///
    /// # Errors
    /// When the capture to be read cannot be opened, or its very first packet cannot be used;
    /// when the one to be written cannot be created.
    pub fn open(port: PortId, options: &CaptureOptions) -> Result<Self, CaptureError> {
        let source = match &options.read {
            Some(path) => Some(Source::open(path, options.mac, options.original_length)?),
            None => None,
        };
        let writer = match &options.write {
            Some(path) => Some(Writer::create(path, LinkType::ETHERNET, Resolution::Nanos)?),
            None => None,
        };
        let pace = match (&options.read, options.paced) {
            (Some(path), true) => {
                let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
                let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(|errno| {
                    let problem = Problem::Io(errno.into());
                    CaptureError { file: path.clone(), offset: 0, packet: 1, problem }
                })?;
                Some(Pace { timer, start: None })
            }
            _ => None,
        };
        let (status, counters) = (CaptureStatus::default(), PortCounters::default());
        Ok(Self { port, source, pace, writer, broken: false, status, counters })
    }

    /// Returns a handle on errors of reading and writing.
    pub fn status(&self) -> CaptureStatus {
        self.status.clone()
    }

    /// Returns the timer that a blocking worker waits on, if the capture is paced.
    pub fn timer(&self) -> Option<BorrowedFd<'_>> {
        self.pace.as_ref().map(|pace| pace.timer.as_fd())
    }

    /// Returns the time until the next frame is due: zero if it is, `None` after the last.
    fn wait(&mut self) -> Option<Duration> {
        let due = self.source.as_ref()?.due()?;
        let Some(pace) = &mut self.pace else { return Some(Duration::ZERO) };
        Some(due.saturating_sub(pace.start.get_or_insert_with(Instant::now).elapsed()))
    }

    fn advance(&mut self) {
        if let Some(source) = &mut self.source
            && let Err(error) = source.advance()
        {
            self.status.note(error);
        }
    }
}

impl PortQueue for CaptureQueue {
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        let headroom = pool.headroom();
        let room = ((pool.chunk_size() - headroom) as usize).min(usize::from(u16::MAX));
        let mut count = 0;
        // At most as many packets as frames: a capture without a fitting frame must not block the
        // worker.
        for _ in 0..frames.len() {
            if self.wait() != Some(Duration::ZERO) {
                break;
            }
            let Some(source) = &self.source else { break };
            let bytes = source.frame();
            if bytes.is_empty() || bytes.len() > room {
                self.counters.receive_invalid += 1;
                self.advance();
                continue;
            }
            // Without a chunk the frame stays in the file; it is not lost.
            let Some(chunk) = pool.take_chunk() else { break };
            let offset = chunk + headroom;
            // It fits: `room` was checked.
            let length = bytes.len() as u16;
            let frame = Frame { offset, length, port_in: self.port };
            pool.frame_bytes(&frame).copy_from_slice(bytes);
            pool.memory().prefetch(offset as usize);
            frames[count] = frame;
            self.counters.received_bytes += u64::from(length);
            count += 1;
            self.advance();
        }
        self.counters.received_packets += count as u64;
        count
    }

    fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
        if self.broken {
            return 0;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut count = 0;
        for frame in frames {
            if let Some(writer) = &mut self.writer
                && let Err(error) = writer.write(now, pool.frame_bytes(frame))
            {
                self.status.note(error);
                self.writer = None;
                self.broken = true;
                self.counters.transmitted_packets += count as u64;
                return count;
            }
            self.counters.transmitted_bytes += u64::from(frame.length);
            pool.free(frame.offset);
            count += 1;
        }
        self.counters.transmitted_packets += count as u64;
        count
    }

    fn flush(&mut self, _pool: &mut FramePool) {}

    fn recycle(&mut self, _pool: &mut FramePool) {}

    /// Returns 1 if a frame is due. Otherwise sets the timer, for a worker that goes to sleep.
    fn pending(&mut self) -> usize {
        let Some(wait) = self.wait() else { return 0 };
        if wait.is_zero() {
            return 1;
        }
        if let Some(pace) = &self.pace {
            let it_value = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            // If that fails, the worker's longest sleep bounds the delay.
            let _ = timerfd_settime(&pace.timer, TimerfdTimerFlags::empty(), &once);
        }
        0
    }

    fn exhausted(&self) -> bool {
        self.source.as_ref().is_none_or(|source| source.due().is_none())
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.timer().map(|timer| timer.as_raw_fd())
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

impl Drop for CaptureQueue {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.writer.take().map(Writer::finish) {
            self.status.note(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_traffic::capture::Reader;

    const CHUNK: u32 = 512;

    fn pool(chunks: u32) -> FramePool {
        FramePool::zeroed(chunks, CHUNK, 64)
    }

    fn write(path: &std::path::Path, packets: &[(Duration, Vec<u8>)]) {
        let mut writer = Writer::create(path, LinkType::ETHERNET, Resolution::Nanos).unwrap();
        for (time, data) in packets {
            writer.write(*time, data).unwrap();
        }
        writer.finish().unwrap();
    }

    fn reading(path: PathBuf) -> CaptureOptions {
        CaptureOptions { read: Some(path), ..CaptureOptions::default() }
    }

    #[test]
    fn frames_read_can_be_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
        let packets: Vec<_> = (1..=10_u8)
            .map(|n| (Duration::from_secs(n.into()), vec![n; 50 + n as usize]))
            .collect();
        write(&input, &packets);
        let options = CaptureOptions { write: Some(output.clone()), ..reading(input) };
        let mut queue = CaptureQueue::open(PortId(2), &options).unwrap();
        let status = queue.status();
        let mut pool = pool(4);
        let mut frames = [Frame::default(); 3];
        let mut total = 0;
        while !queue.exhausted() {
            let count = queue.receive(&mut pool, &mut frames);
            assert!(count > 0 && frames[..count].iter().all(|frame| frame.port_in == PortId(2)));
            assert_eq!(queue.transmit(&mut pool, &frames[..count]), count);
            total += count;
        }
        assert_eq!((total, pool.free_chunks()), (10, 4));
        assert_eq!(queue.receive(&mut pool, &mut frames), 0);
        assert_eq!(queue.counters().received_bytes, queue.counters().transmitted_bytes);
        drop(queue);
        assert!(status.take_errors().is_empty());
        let mut reader = Reader::open(&output).unwrap();
        for (_, data) in &packets {
            assert_eq!(reader.next_record().unwrap().unwrap().data, data);
        }
        assert!(reader.next_record().unwrap().is_none());
    }

    #[test]
    fn frames_too_long_for_a_chunk_are_counted_and_without_chunks_frames_wait() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in.pcap");
        let zero = Duration::ZERO;
        write(&input, &[(zero, vec![1; 449]), (zero, vec![2; 448]), (zero, vec![3; 20])]);
        let mut queue = CaptureQueue::open(PortId(0), &reading(input)).unwrap();
        let mut pool = pool(1);
        let mut frames = [Frame::default(); 8];
        assert_eq!(queue.receive(&mut pool, &mut frames), 1);
        assert_eq!((frames[0].length, queue.counters().receive_invalid), (448, 1));
        assert_eq!(queue.receive(&mut pool, &mut frames[1..]), 0);
        assert!(!queue.exhausted());
        pool.free(frames[0].offset);
        assert_eq!(queue.receive(&mut pool, &mut frames), 1);
        assert!(queue.exhausted());
    }

    #[test]
    fn paced_capture_returns_only_due_frames_and_wakes_a_sleeper() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in.pcap");
        let at = |time| (time, vec![1; 60]);
        let soon = Duration::from_millis(30);
        write(&input, &[at(Duration::ZERO), at(soon), at(Duration::from_secs(3600))]);
        let options = CaptureOptions { paced: true, ..reading(input) };
        let mut queue = CaptureQueue::open(PortId(0), &options).unwrap();
        let mut pool = pool(8);
        let mut frames = [Frame::default(); 8];
        let start = Instant::now();
        assert!(queue.receive(&mut pool, &mut frames) >= 1);
        while queue.counters().received_packets < 2 {
            if queue.pending() == 0 {
                let mut waiter = crate::waiter::PollWaiter::new(queue.timer()).unwrap();
                use wattline_dataplane::port::Waiter;
                waiter.wait(Duration::from_secs(3600));
            }
            queue.receive(&mut pool, &mut frames);
        }
        assert!(start.elapsed() >= soon, "not before its time");
        assert_eq!(queue.receive(&mut pool, &mut frames), 0);
        assert!(!queue.exhausted());
    }

    #[test]
    fn truncated_capture_returns_whole_packets_and_then_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in.pcap");
        write(&input, &[(Duration::ZERO, vec![1; 60]), (Duration::ZERO, vec![2; 60])]);
        let bytes = std::fs::read(&input).unwrap();
        std::fs::write(&input, &bytes[..bytes.len() - 1]).unwrap();
        let mut queue = CaptureQueue::open(PortId(0), &reading(input)).unwrap();
        let status = queue.status();
        let mut frames = [Frame::default(); 8];
        assert_eq!(queue.receive(&mut pool(8), &mut frames), 1);
        assert!(queue.exhausted());
        let errors = status.take_errors();
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].packet, 2);
    }

    #[test]
    fn files_that_cannot_be_opened_and_full_disks_are_reported() {
        let missing = reading(PathBuf::from("/nonexistent/in.pcap"));
        assert!(CaptureQueue::open(PortId(0), &missing).is_err());

        let full =
            CaptureOptions { write: Some(PathBuf::from("/dev/full")), ..CaptureOptions::default() };
        let mut queue = CaptureQueue::open(PortId(0), &full).unwrap();
        assert!(queue.exhausted(), "it never receives");
        let status = queue.status();
        let mut pool = pool(2);
        let offset = pool.take_chunk().unwrap();
        let frame = Frame { offset, length: 100, port_in: PortId(1) };
        assert_eq!(queue.transmit(&mut pool, &[frame]), 1);
        drop(queue);
        assert_eq!(status.take_errors().len(), 1);

        // More than is buffered: after the error frames are refused, not only counted.
        let mut queue = CaptureQueue::open(PortId(0), &full).unwrap();
        let status = queue.status();
        let offset = pool.take_chunk().unwrap();
        let frame = Frame { offset, length: CHUNK as u16 - 64, port_in: PortId(1) };
        let taken: Vec<usize> = (0..100)
            .map(|_| {
                let count = queue.transmit(&mut pool, &[frame]);
                if count > 0 {
                    pool.take_chunk();
                }
                count
            })
            .collect();
        let refused = taken.iter().position(|count| *count == 0).unwrap();
        assert!(taken[refused..].iter().all(|count| *count == 0), "{taken:?}");
        assert_eq!(queue.counters().transmitted_packets, refused as u64);
        drop(queue);
        assert_eq!(status.take_errors().len(), 1);
    }

    #[test]
    fn capture_without_a_fitting_frame_does_not_block_the_worker() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in.pcap");
        write(&input, &vec![(Duration::ZERO, vec![1; 449]); 20]);
        let mut queue = CaptureQueue::open(PortId(0), &reading(input)).unwrap();
        let mut frames = [Frame::default(); 8];
        assert_eq!(queue.receive(&mut pool(1), &mut frames), 0);
        assert_eq!((queue.counters().receive_invalid, queue.pending()), (8, 1));
    }
}
