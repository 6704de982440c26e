//! Lengths of frames from captures, merged by time as at a router.
//!
//! Only lengths and their order are taken. The schedule determines the times, and the generator the
//! contents, since each packet carries its number and its time.

use super::sizes::{FCS, FRAME_MAX, FRAME_MIN, Sizes};
use crate::Error;
use std::path::{Path, PathBuf};
use wattline_traffic::capture::Reader;
use wattline_units::Time;

/// Largest number of frames read from each capture; the mix repeats after the last one.
const FRAMES_MAX: usize = 1 << 20;
const ETHERNET: u32 = 14;

impl Sizes {
    /// Merges the frames of all captures by time; each capture starts at zero. Lengths outside
    /// Ethernet's range (of packets that a card has merged) are clamped, and the name contains
    /// their number.
    ///
    /// # Errors
    /// Fails when a capture cannot be read, or none holds a frame.
    pub fn from_captures(files: &[PathBuf]) -> Result<Self, Error> {
        let mut frames: Vec<(Time, u16)> = Vec::new();
        let mut clamped = 0_u64;
        let mut end = Time::from_picos(u64::MAX);
        for file in files {
            let (own, ends) = read(file, &mut clamped)?;
            frames.extend(own);
            // After the end of a truncated capture, the mix would lack a source.
            end = end.min(ends.unwrap_or(end));
        }
        // Stable: frames of the same time keep the order of the files.
        frames.sort_by_key(|(time, _)| *time);
        frames.retain(|(time, _)| *time <= end);
        let names: Vec<String> = files.iter().map(|file| name(file)).collect();
        let names = names.join("+");
        if frames.is_empty() {
            let reason = "expected captures with at least one frame".to_owned();
            return Err(Error::Data { path: names.into(), reason });
        }
        let mut text = format!("{names}: {} frames", frames.len());
        if clamped > 0 {
            text.push_str(&format!(", {clamped} outside {FRAME_MIN} to {FRAME_MAX} bytes"));
        }
        Ok(Self::in_order(text, frames.into_iter().map(|(_, length)| length).collect()))
    }
}

fn name(file: &Path) -> String {
    file.file_name()
        .map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into())
}

/// Times and lengths, and the last time if the capture is not read to its end.
type Frames = (Vec<(Time, u16)>, Option<Time>);

fn read(file: &Path, clamped: &mut u64) -> Result<Frames, Error> {
    let mut reader = Reader::open(file)?;
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record()? {
        if frames.len() == FRAMES_MAX {
            let end = frames.last().map(|(time, _)| *time);
            return Ok((frames, end));
        }
        // Any other link header counts as an Ethernet header. At most 24.
        let header = record.link_type.header_length().map_or(ETHERNET, |length| length as u32);
        let length =
            record.original_length.saturating_sub(header).saturating_add(ETHERNET + u32::from(FCS));
        // Padding does not count as clamping.
        *clamped += u64::from(length > u32::from(FRAME_MAX));
        let length = length.clamp(u32::from(FRAME_MIN), u32::from(FRAME_MAX)) as u16;
        frames.push((record.time, length));
    }
    Ok((frames, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use wattline_traffic::capture::{LinkType, Resolution, Writer};

    /// Writes a capture with frames of these lengths (without check sequence) at these
    /// milliseconds.
    fn capture(folder: &Path, name: &str, frames: &[(u64, usize)]) -> PathBuf {
        let path = folder.join(name);
        let mut writer = Writer::create(&path, LinkType::ETHERNET, Resolution::Nanos).unwrap();
        for (millis, length) in frames {
            writer.write(Duration::from_millis(*millis), &vec![0; *length]).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    #[test]
    fn captures_are_merged_by_time_from_their_starts() {
        let folder = tempfile::tempdir().unwrap();
        // The second began an hour later.
        let files = [
            capture(folder.path(), "a.pcap", &[(0, 60), (10, 100), (20, 200)]),
            capture(folder.path(), "b.pcap", &[(3_600_000, 300), (3_600_015, 1514)]),
        ];
        let sizes = Sizes::from_captures(&files).unwrap();
        let order: Vec<u16> = (0..sizes.period() as u64).map(|index| sizes.at(index)).collect();
        assert_eq!(order, [64, 304, 104, 1518, 204]);
        assert_eq!(sizes.name(), "a.pcap+b.pcap: 5 frames");
        assert_eq!(sizes.at(6), 304, "it repeats");
    }

    #[test]
    fn merged_packets_are_cut_and_counted_and_short_ones_padded() {
        let folder = tempfile::tempdir().unwrap();
        let file = capture(folder.path(), "big.pcap", &[(0, 42), (1, 9000)]);
        let sizes = Sizes::from_captures(&[file]).unwrap();
        assert_eq!((sizes.at(0), sizes.at(1)), (64, 1518));
        assert_eq!(sizes.name(), "big.pcap: 2 frames, 1 outside 64 to 1518 bytes");
    }

    #[test]
    fn unusable_captures_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let empty = capture(folder.path(), "empty.pcap", &[]);
        let broken = folder.path().join("broken.pcap");
        std::fs::write(&broken, "no capture").unwrap();
        for file in [empty, broken, folder.path().join("missing.pcap")] {
            let name = name(&file);
            let error = Sizes::from_captures(&[file]).unwrap_err().to_string();
            assert!(error.contains(&name), "{error}");
        }
    }
}
