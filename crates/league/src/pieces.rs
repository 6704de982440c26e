//! The pieces of a league. Each is played alone and stored in a file, so that an interrupted league
//! resumes. Pieces of another build of the program are ignored: its results may differ.

use crate::build_mark::build_mark;
use crate::error::LeagueError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Storage of pieces.
#[derive(Debug, Clone)]
pub struct Store {
    kept: Option<Directory>,
    /// True if missing pieces are played.
    plays: bool,
}

#[derive(Debug, Clone)]
struct Directory {
    path: PathBuf,
    /// Identity of the build whose pieces count.
    mark: String,
}

#[derive(Serialize, Deserialize)]
struct Kept<T> {
    /// Description of the played piece: it distinguishes pieces whose file names collide.
    key: String,
    result: T,
}

impl Store {
    /// Opens a store in a directory, which is created if missing. Without a directory nothing is
    /// stored.
    ///
    /// # Errors
    /// When the directory cannot be created, or the program's own file cannot be read.
    pub fn new(directory: Option<PathBuf>) -> Result<Self, LeagueError> {
        match directory {
            None => Ok(Self { kept: None, plays: true }),
            Some(path) => Self::open_for_build(path, build_mark()?),
        }
    }

    fn open_for_build(path: PathBuf, mark: &str) -> Result<Self, LeagueError> {
        fs::create_dir_all(&path)
            .map_err(|source| LeagueError::Io { path: path.display().to_string(), source })?;
        Ok(Self { kept: Some(Directory { path, mark: mark.to_owned() }), plays: true })
    }

    /// Returns a view of the store that plays nothing: missing pieces give [`LeagueError::Absent`].
    pub(crate) fn read_only(&self) -> Self {
        Self { plays: false, ..self.clone() }
    }

    /// Returns the piece of this key from the store, or plays and stores it.
    ///
    /// # Errors
    /// Errors of `play`, and when the file cannot be written. A file that cannot be read counts as
    /// absent: it may be incomplete.
    pub fn piece<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        play: impl FnOnce() -> Result<T, LeagueError>,
    ) -> Result<T, LeagueError> {
        let play = || if self.plays { play() } else { Err(LeagueError::Absent) };
        let Some(directory) = &self.kept else { return play() };
        let key = format!("{} {key}", directory.mark);
        let path = directory.path.join(format!("{:016x}.json", fnv1a(key.as_bytes())));
        let io = |source| LeagueError::Io { path: path.display().to_string(), source };
        match fs::read(&path) {
            Ok(text) => {
                if let Ok(kept) = serde_json::from_slice::<Kept<T>>(&text)
                    && kept.key == key
                {
                    return Ok(kept.result);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
        let result = play()?;
        let kept = Kept { key, result };
        let text = serde_json::to_vec(&kept).map_err(|error| io(error.into()))?;
        // A process killed while writing leaves no partial file.
        wattline_files::replace(&path, &text).map_err(io)?;
        Ok(kept.result)
    }
}

/// Fowler, Noll and Vo's hash, 1a, 64 bits: the same on every machine and in every version.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piece_is_played_once_and_again_if_its_file_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(Some(directory.path().join("pieces"))).unwrap();
        assert_eq!(store.piece("a", || Ok(1.5)).unwrap(), 1.5);
        assert_eq!(store.piece("a", || -> Result<f64, _> { panic!("played") }).unwrap(), 1.5);
        let path = fs::read_dir(directory.path().join("pieces")).unwrap().next().unwrap().unwrap();
        fs::write(path.path(), "{\"key\": \"a\", ").unwrap();
        assert_eq!(store.piece("a", || Ok(2.5)).unwrap(), 2.5);
        // Another build plays its own.
        let other = Store::open_for_build(directory.path().join("pieces"), "other").unwrap();
        assert_eq!(other.piece("a", || Ok(4.5)).unwrap(), 4.5);
        assert_eq!(store.piece("a", || -> Result<f64, _> { panic!("played") }).unwrap(), 2.5);
        let view = store.read_only();
        assert_eq!(view.piece("a", || -> Result<f64, _> { panic!("played") }).unwrap(), 2.5);
        let absent = view.piece("b", || -> Result<f64, _> { panic!("played") });
        assert!(matches!(absent, Err(LeagueError::Absent)));
        let none = Store::new(None).unwrap();
        assert_eq!(none.piece("a", || Ok(3.5)).unwrap(), 3.5);
    }

    #[test]
    fn hash_matches_the_published_value() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
