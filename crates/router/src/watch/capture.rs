//! A capture file of the packets that workers saw (pcapng), with the fate of each packet as a
//! comment.

use super::form::Form;
use super::rounds::Seen;
use std::collections::HashMap;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wattline_daemon::stream::Outlet;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::tap::record::{Kind, Record};
use wattline_status::Build;
use wattline_traffic::capture::write_pcapng::{self, Direction, Packet};

/// Most packets that are held until their neighbour is known. Further ones are written at once.
const HELD_MOST: usize = 4096;
/// Bytes that are sent at once.
const PIECE: usize = 256 << 10;

/// A packet to be written.
struct Entry {
    record: Record,
    direction: Direction,
    comments: Vec<String>,
    /// False once a later event shows that it did not happen.
    counts: bool,
}

/// See the module.
pub(super) struct Capture {
    ports: Vec<(String, String)>,
    beginning: Vec<u8>,
    /// Packets that wait for a neighbour, by worker and number.
    held: HashMap<(usize, u32), Entry>,
}

impl Capture {
    /// Creates a capture of these ports, given with their names and interfaces.
    pub fn new(ports: Vec<(String, String)>, remark: &str, snap: u16) -> Self {
        let application = format!("Wattline {}", Build::default());
        let beginning = write_pcapng::section(&application, remark, &ports, snap.into());
        Self { ports, beginning, held: HashMap::new() }
    }

    /// Returns an iteration's entries, in order.
    fn entries(&mut self, seen: &Seen) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let received = |entries: &[Entry], packet: u32, direction: Direction| {
            entries.iter().position(|it| it.record.packet == packet && it.direction == direction)
        };
        for record in &seen.records {
            let key = (seen.worker, record.packet);
            // A held packet continues, and is written before its later events.
            if let Some(mut held) = self.held.remove(&key) {
                let waited = record.time_nanos.saturating_sub(held.record.time_nanos);
                held.comments.push(format!("waited {} ms for its neighbour", waited / 1_000_000));
                entries.push(held);
            }
            let entry = |direction| Entry {
                record: record.clone(),
                direction,
                comments: Vec::new(),
                counts: true,
            };
            let comment = match record.kind {
                Kind::Received => {
                    entries.push(entry(Direction::In));
                    continue;
                }
                Kind::Sent if record.bytes.is_empty() => continue,
                Kind::Sent => {
                    entries.push(entry(Direction::Out));
                    continue;
                }
                Kind::Dropped(reason) => {
                    // The transmit ring refused it.
                    if let Some(place) = received(&entries, record.packet, Direction::Out) {
                        entries[place].counts = false;
                    }
                    format!("dropped: {}", reason_name(reason))
                }
                Kind::LeftToKernel => "left to the kernel".to_owned(),
                Kind::Consumed(_) => "went on in other packets".to_owned(),
                Kind::Held(_) => {
                    let place = received(&entries, record.packet, Direction::In);
                    if let Some(place) = place.filter(|_| self.held.len() < HELD_MOST) {
                        self.held.insert(key, entries.remove(place));
                    }
                    continue;
                }
                Kind::Made(_) | Kind::Visits(_) | Kind::NextHop | Kind::Round => continue,
            };
            if let Some(place) = received(&entries, record.packet, Direction::In) {
                entries[place].comments.push(comment);
            }
        }
        entries
    }

    fn write(entries: &[Entry], out: &mut Outlet<'_>) -> io::Result<u64> {
        let mut bytes = Vec::new();
        let mut packets = 0;
        for entry in entries.iter().filter(|entry| entry.counts) {
            packets += 1;
            bytes.extend(write_pcapng::packet(&Packet {
                interface: entry.record.port.into(),
                time: Duration::from_nanos(entry.record.time_nanos),
                bytes: &entry.record.bytes,
                length: entry.record.length.into(),
                direction: entry.direction,
                comments: &entry.comments,
            }));
            if bytes.len() >= PIECE {
                out.bytes(&std::mem::take(&mut bytes))?;
            }
        }
        if !bytes.is_empty() {
            out.bytes(&bytes)?;
        }
        Ok(packets)
    }
}

/// Returns the name of a reason by its number.
pub(super) fn reason_name(number: u8) -> &'static str {
    DropReason::ALL.get(usize::from(number)).map_or("unknown", |reason| reason.name())
}

impl Form for Capture {
    fn begin(&mut self, out: &mut Outlet<'_>) -> io::Result<()> {
        out.bytes(&std::mem::take(&mut self.beginning))
    }

    fn round(&mut self, seen: &Seen, out: &mut Outlet<'_>) -> io::Result<u64> {
        Self::write(&self.entries(seen), out)
    }

    fn end(&mut self, matched: u64, missed: u64, out: &mut Outlet<'_>) -> io::Result<u64> {
        let mut held: Vec<Entry> = self.held.drain().map(|(_, entry)| entry).collect();
        held.sort_by_key(|entry| entry.record.time_nanos);
        for entry in &mut held {
            entry.comments.push("waits for its neighbour".to_owned());
        }
        let packets = Self::write(&held, out)?;
        let remark = "packets of all interfaces that matched the filter, and those missed because \
                      they came too fast";
        if !self.ports.is_empty() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            out.bytes(&write_pcapng::statistics(0, now, matched, missed, remark))?;
        }
        Ok(packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: Kind, packet: u32) -> Record {
        let bytes = match kind {
            Kind::Received | Kind::Sent => vec![1; 60],
            _ => Vec::new(),
        };
        Record {
            kind,
            packet,
            port: 0,
            time_nanos: u64::from(packet) * 1_000_000,
            length: 60,
            bytes,
        }
    }

    fn entries(capture: &mut Capture, records: Vec<Record>) -> Vec<(Direction, bool, String)> {
        let entries = capture.entries(&Seen { worker: 0, records });
        entries.into_iter().map(|it| (it.direction, it.counts, it.comments.join(", "))).collect()
    }

    #[test]
    fn fate_of_a_packet_is_the_comment_of_its_received_form() {
        let mut capture = Capture::new(vec![("a".to_owned(), String::new())], "", 99);
        let ring_full = Kind::Dropped(DropReason::TransmitRingFull as u8);
        let seen = entries(
            &mut capture,
            vec![
                record(Kind::Received, 1),
                record(Kind::Received, 2),
                record(Kind::Received, 3),
                record(Kind::LeftToKernel, 3),
                record(Kind::Sent, 1),
                record(Kind::Sent, 2),
                record(ring_full, 2),
            ],
        );
        let (i, o) = (Direction::In, Direction::Out);
        let expected = [
            (i, true, ""),
            (i, true, "dropped: transmit-ring-full"),
            (i, true, "left to the kernel"),
            (o, true, ""),
            (o, false, ""),
        ];
        assert_eq!(seen, expected.map(|(way, counts, text)| (way, counts, text.to_owned())));
    }

    #[test]
    fn packet_held_for_a_neighbour_is_written_when_it_continues() {
        let mut capture = Capture::new(Vec::new(), "", 99);
        let held = vec![record(Kind::Received, 5), record(Kind::Held(1), 5)];
        assert_eq!(entries(&mut capture, held), []);
        let mut sent = record(Kind::Sent, 5);
        sent.time_nanos += 7_000_000;
        let seen = entries(&mut capture, vec![sent]);
        let waited = "waited 7 ms for its neighbour".to_owned();
        assert_eq!(seen, [(Direction::In, true, waited), (Direction::Out, true, String::new())]);
    }
}
