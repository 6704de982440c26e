//! Keys from separate files.

use crate::esp::algorithm::Algorithm;
use crate::esp::key::KeyMaterial;
use crate::section::KeySource;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// Buffer size in bytes, more than any key in hexadecimal digits.
const LONGEST: usize = 1024;

/// Loads the key at `source`.
///
/// # Errors
/// Returns the fault of the file and what to do, but never the contents.
pub(super) fn load(source: &KeySource, algorithm: Algorithm) -> Result<KeyMaterial, String> {
    match source {
        KeySource::Inline(key) => Ok(key.clone()),
        KeySource::File(path) => {
            read(path, algorithm).map_err(|error| format!("{}: {error}", path.display()))
        }
    }
}

fn read(path: &Path, algorithm: Algorithm) -> Result<KeyMaterial, String> {
    // Opened once and then checked, so that nobody can exchange the file in between. Non-blocking,
    // since it may be a pipe.
    let file = std::fs::File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(|error| format!("the key cannot be read: {error}"))?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "has mode {mode:04o}, so others can read the key: `chmod 600` it (0600 or 0400)"
        ));
    }
    // Allocated at full length, so that growing leaves no copy behind.
    let mut text = Zeroizing::new(String::with_capacity(LONGEST + 1));
    file.take(LONGEST as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("the key cannot be read: {error}"))?;
    if text.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes: no key is"));
    }
    KeyMaterial::from_hex(algorithm, &text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_files_that_are_nobody_elses_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let load = |mode: u32, text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            load(&KeySource::File(path.clone()), Algorithm::Aes128Gcm)
        };
        let good = format!("{}\n", "5a".repeat(20));
        assert!(load(0o600, &good).is_ok());
        for mode in [0o640, 0o604, 0o644, 0o601] {
            let error = load(mode, &good).unwrap_err();
            assert!(error.contains("chmod 600") && error.contains(&format!("{mode:04o}")));
        }
        let error = load(0o600, "5a5a").unwrap_err();
        assert!(error.contains("has 2") && !error.contains("5a5a"), "{error}");
        assert!(load(0o600, &"5a".repeat(1000)).unwrap_err().contains("longer"));
        let folder = KeySource::File(folder.path().to_owned());
        assert!(super::load(&folder, Algorithm::Aes128Gcm).unwrap_err().contains("regular file"));
    }
}
