//! Identity of this build of the program: another build may give other results.

use crate::error::LeagueError;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Link of the kernel to the running program, valid even after its file was replaced.
const RUNNING: &str = "/proc/self/exe";

/// Returns the hash of the running program's file, the same on every machine that runs this file.
/// It is computed once.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn build_mark() -> Result<&'static str, LeagueError> {
    static MARK: OnceLock<String> = OnceLock::new();
    if let Some(mark) = MARK.get() {
        return Ok(mark);
    }
    let mut path = PathBuf::from(RUNNING);
    if !path.exists() {
        let unknown = |source| LeagueError::Io { path: "this program's file".into(), source };
        path = std::env::current_exe().map_err(unknown)?;
    }
    let io = |source| LeagueError::Io { path: path.display().to_string(), source };
    let mark = hash(File::open(&path).map_err(io)?).map_err(io)?;
    Ok(MARK.get_or_init(|| mark))
}

/// Returns the first half of the SHA-256 of a file's contents: long enough that two files never
/// share it by chance.
pub(crate) fn hash(mut file: impl Read) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    Ok(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_depends_on_the_contents_alone() {
        let mark = build_mark().unwrap();
        assert_eq!(mark, build_mark().unwrap());
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(mark, hash(file).unwrap());
        // The first half of the published hash of "abc".
        assert_eq!(hash(&b"abc"[..]).unwrap(), "ba7816bf8f01cfea414140de5dae2223");
    }
}
