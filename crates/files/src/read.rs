//! Reading files that a command line or a configuration names.

use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Longest text in bytes that people write or let programs write: configurations, server models,
/// results. A full table of today's Internet routes has a tenth of it.
pub const MOST_TEXT: u64 = 256 << 20;

/// Returns the contents of a file of at most `most` bytes.
///
/// A pipe without a writer is an error, since reading would wait for one.
///
/// # Errors
/// As opening and reading a file fails, and [`ErrorKind::FileTooLarge`].
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
    let metadata = file.metadata()?;
    let too_large = || {
        let message = format!("is longer than {most} bytes");
        Err(io::Error::new(ErrorKind::FileTooLarge, message))
    };
    if metadata.is_file() && metadata.len() > most {
        return too_large();
    }
    fcntl_setfl(&file, OFlags::empty())?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return too_large();
    }
    if bytes.is_empty() && metadata.file_type().is_fifo() {
        let message = "is a pipe that no program writes to";
        return Err(io::Error::new(ErrorKind::UnexpectedEof, message));
    }
    Ok(bytes)
}

/// Returns the text of a file of at most `most` bytes.
///
/// # Errors
/// As [`read`], and [`ErrorKind::InvalidData`] for bytes that are not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::io::Write as _;

    #[test]
    fn file_at_the_limit_is_read_and_a_longer_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "1234").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "1234");
        assert_eq!(read(&path, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text(&path, 4).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn sparse_file_device_directory_and_idle_pipe_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        File::create(at("sparse")).unwrap().set_len(64 << 30).unwrap();
        mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        let kind = |path: &Path| read(path, 1 << 16).unwrap_err().kind();
        assert_eq!(kind(&at("sparse")), ErrorKind::FileTooLarge);
        assert_eq!(kind(Path::new("/dev/zero")), ErrorKind::FileTooLarge);
        assert_eq!(kind(folder.path()), ErrorKind::IsADirectory);
        assert_eq!(kind(&at("pipe")), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn pipe_of_another_program_is_read_to_its_end() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let written = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            writer.write_all(b"text")
        });
        assert_eq!(read_text(Path::new(&path), 100).unwrap(), "text");
        written.join().unwrap().unwrap();
    }
}
