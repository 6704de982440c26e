//! Keys of tunnels: their sources, and checks of their use.

use super::key_state::Role;
use super::store::{KeyFile, Store};
use crate::esp::algorithm::Algorithm;
use crate::esp::key::KeyMaterial;
use crate::section::{IpsecSettings, KeySource, TunnelSettings};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// Buffer size in bytes, more than any key in hexadecimal digits.
const LONGEST: usize = 1024;

/// Names of the keys of a tunnel, with their uses.
const DIRECTIONS: [(&str, Role); 2] = [("key_in", Role::Receive), ("key_out", Role::Send)];

/// Loads the two keys of each tunnel, for received packets and for sent ones.
///
/// # Errors
/// Returns all faults of the files, and keys that occur twice.
pub(super) fn load_all(tunnels: &[TunnelSettings]) -> Result<Vec<[KeyMaterial; 2]>, Vec<String>> {
    let (mut keys, mut errors) = (Vec::new(), Vec::new());
    let mut known: HashMap<u64, String> = HashMap::new();
    for tunnel in tunnels {
        let loaded =
            [(&tunnel.key_in, "key_in"), (&tunnel.key_out, "key_out")].map(|(source, key)| {
                let of = format!("{key} of tunnel {}", tunnel.name);
                match load(source, tunnel.algorithm) {
                    Ok(key) => {
                        let fingerprint = key.cipher_fingerprint(tunnel.algorithm);
                        // With the same key in both directions, nonces would be used twice.
                        if let Some(other) = known.insert(fingerprint, of.clone()) {
                            errors.push(format!(
                            "{of} is the same as {other}, apart from a salt or integrity key: each \
                             direction needs a key of its own"
                        ));
                        }
                        Some(key)
                    }
                    Err(error) => {
                        errors.push(within(tunnel, key, &error));
                        None
                    }
                }
            });
        if let [Some(key_in), Some(key_out)] = loaded {
            keys.push([key_in, key_out]);
        }
    }
    if errors.is_empty() { Ok(keys) } else { Err(errors) }
}

/// Opens the state of the keys of all tunnels.
///
/// # Errors
/// Returns all faults, and the command for keys that have no state.
pub(super) fn open_all(
    settings: &IpsecSettings,
    keys: &[[KeyMaterial; 2]],
    store: &Store,
) -> Result<Vec<[KeyFile; 2]>, Vec<String>> {
    let (mut opened, mut errors, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (tunnel, keys) in settings.tunnels.iter().zip(keys) {
        match open(tunnel, keys, store) {
            Ok([Some(key_in), Some(key_out)]) => opened.push([key_in, key_out]),
            Ok(states) => {
                for (state, (key, _)) in states.iter().zip(DIRECTIONS) {
                    if state.is_none() {
                        errors.push(format!(
                            "[[ipsec_tunnel]] {}: {key}: {} has no record of this key, so its used \
                             nonces are unknown",
                            tunnel.name,
                            store.directory().display()
                        ));
                    }
                }
                unknown.push(tunnel.name.as_str());
            }
            Err(found) => errors.extend(found),
        }
    }
    if !unknown.is_empty() {
        let file = match settings.file.as_os_str().is_empty() {
            true => "CONFIG".into(),
            false => settings.file.to_string_lossy(),
        };
        errors.push(format!(
            "keys that were never used anywhere are declared by `wattline new-keys {file} {}`; if \
             they may have been used, because [ipsec] state was lost, make new keys for both ends \
             first",
            unknown.join(" ")
        ));
    }
    if errors.is_empty() { Ok(opened) } else { Err(errors) }
}

/// Result of [`declare_new`] for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredKey {
    /// Name of the tunnel.
    pub tunnel: String,
    /// Name of the key in the configuration, `key_in` or `key_out`.
    pub key: &'static str,
    /// False if its use was recorded before; nothing changes then.
    pub is_new: bool,
}

/// Declares the keys of these tunnels as never used, unless their use is already recorded.
///
/// # Errors
/// Returns a tunnel that does not exist, and all faults of keys and of their state. Nothing is
/// declared then.
pub fn declare_new(
    settings: &IpsecSettings,
    tunnels: &[String],
) -> Result<Vec<DeclaredKey>, Vec<String>> {
    let known: Vec<&str> = settings.tunnels.iter().map(|tunnel| tunnel.name.as_str()).collect();
    if let Some(name) = tunnels.iter().find(|name| !known.contains(&name.as_str())) {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(vec![format!(
            "{name} is not a tunnel of this configuration; allowed: {known}"
        )]);
    }
    let keys = load_all(&settings.tunnels)?;
    let store = Store::open(&settings.state).map_err(|error| vec![error])?;
    let asked = || {
        let all = settings.tunnels.iter().zip(&keys);
        all.filter(|(tunnel, _)| tunnels.contains(&tunnel.name))
    };
    let (mut states, mut errors) = (Vec::new(), Vec::new());
    for (tunnel, keys) in asked() {
        match open(tunnel, keys, &store) {
            Ok(state) => states.push(state),
            Err(found) => errors.extend(found),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut declared = Vec::new();
    for ((tunnel, keys), states) in asked().zip(&states) {
        for ((key, state), (name, role)) in keys.iter().zip(states).zip(DIRECTIONS) {
            if state.is_none() {
                let made = store.new_key(key, tunnel.algorithm, role);
                made.map_err(|error| vec![within(tunnel, name, &error)])?;
            }
            let (tunnel, is_new) = (tunnel.name.clone(), state.is_none());
            declared.push(DeclaredKey { tunnel, key: name, is_new });
        }
    }
    Ok(declared)
}

/// Opens the state of both keys of a tunnel.
fn open(
    tunnel: &TunnelSettings,
    keys: &[KeyMaterial; 2],
    store: &Store,
) -> Result<[Option<KeyFile>; 2], Vec<String>> {
    let [key_in, key_out] = [0, 1].map(|at: usize| {
        let (name, role) = DIRECTIONS[at];
        store.key(&keys[at], tunnel.algorithm, role).map_err(|error| within(tunnel, name, &error))
    });
    match (key_in, key_out) {
        (Ok(key_in), Ok(key_out)) => Ok([key_in, key_out]),
        (one, other) => Err([one.err(), other.err()].into_iter().flatten().collect()),
    }
}

fn within(tunnel: &TunnelSettings, key: &str, error: &str) -> String {
    format!("[[ipsec_tunnel]] {}: {key}: {error}", tunnel.name)
}

/// Loads the key at `source`.
///
/// # Errors
/// Returns the fault of the file and what to do, but never the contents.
fn load(source: &KeySource, algorithm: Algorithm) -> Result<KeyMaterial, String> {
    match source {
        KeySource::Inline(key) => Ok(key.clone()),
        KeySource::File(path) => {
            read(path, algorithm).map_err(|error| format!("{}: {error}", path.display()))
        }
    }
}

fn read(path: &Path, algorithm: Algorithm) -> Result<KeyMaterial, String> {
    // Opened once and then checked, so that the file cannot be exchanged in between. Non-blocking,
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
    fn key_file_readable_by_others_is_refused() {
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
