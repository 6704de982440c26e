//! Key material: hidden from logs, zeroed when dropped.

use super::algorithm::Algorithm;
use aws_lc_rs::hmac;
use std::fmt;
use zeroize::Zeroizing;

/// Secret bytes: an encryption key, followed by the salt of GCM or by the key of the HMAC.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyMaterial(Zeroizing<Vec<u8>>);

/// Shows that there is a key, without its contents.
impl fmt::Debug for KeyMaterial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeyMaterial(hidden)")
    }
}

/// Reasons why a text is no key material, without the text itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text contains characters that are not hexadecimal digits.
    #[error("must be hexadecimal digits, two for each byte")]
    NotHexadecimal,
    /// The number of bytes does not fit the algorithm.
    #[error(
        "must have {wanted} bytes ({} digits) for {}: {} of the cipher's key and {} of the {}, \
         but has {found}",
        .wanted * 2, .algorithm.name(), .algorithm.cipher_key(), .algorithm.second_key(),
        if .algorithm.is_gcm() { "salt" } else { "integrity key" }
    )]
    Length {
        /// Algorithm of the key.
        algorithm: Algorithm,
        /// Number of bytes that it needs.
        wanted: usize,
        /// Number of bytes in the text.
        found: usize,
    },
}

impl KeyMaterial {
    /// Takes ownership of bytes.
    ///
    /// # Errors
    /// Fails when their number does not fit the algorithm.
    pub fn new(algorithm: Algorithm, bytes: Vec<u8>) -> Result<Self, KeyError> {
        let bytes = Zeroizing::new(bytes);
        let (wanted, found) = (algorithm.key_material(), bytes.len());
        if wanted != found {
            return Err(KeyError::Length { algorithm, wanted, found });
        }
        Ok(Self(bytes))
    }

    /// Parses hexadecimal digits; a leading `0x` and white space around them are ignored.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn from_hex(algorithm: Algorithm, text: &str) -> Result<Self, KeyError> {
        let text = text.trim().trim_start_matches("0x").as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let (pairs, rest) = text.as_chunks::<2>();
        // Allocated at full length, so that growing leaves no copy behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
        for [high, low] in pairs {
            match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => bytes.push(high << 4 | low),
                _ => return Err(KeyError::NotHexadecimal),
            }
        }
        if !rest.is_empty() {
            return Err(KeyError::NotHexadecimal);
        }
        Self::new(algorithm, std::mem::take(&mut *bytes))
    }

    /// Distinguishes keys without revealing anything about them: a keyed hash, truncated to 64
    /// bits.
    pub fn fingerprint(&self) -> u64 {
        hash(&self.0, b"wattline fingerprint")
    }

    /// Distinguishes keys by the cipher's key alone. A different salt or integrity key does not
    /// make another key: nonces must be unique for a cipher's key, whatever the salt.
    pub fn cipher_fingerprint(&self, algorithm: Algorithm) -> u64 {
        let cipher = self.parts(algorithm).map_or(&self.0[..], |parts| parts.0);
        hash(cipher, b"wattline cipher fingerprint")
    }

    /// Returns the cipher's key, and the salt or integrity key after it.
    pub(super) fn parts(&self, algorithm: Algorithm) -> Option<(&[u8], &[u8])> {
        self.0.split_at_checked(algorithm.cipher_key())
    }
}

fn hash(key: &[u8], label: &[u8]) -> u64 {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), label);
    u64::from_be_bytes(*tag.as_ref().first_chunk().unwrap_or(&[0; 8]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_parsed_and_not_shown() {
        let text = format!("0x{}\n", "ab".repeat(20));
        let key = KeyMaterial::from_hex(Algorithm::Aes128Gcm, &text).unwrap();
        assert_eq!(*key.0, vec![0xab; 20]);
        assert!(!format!("{key:?}").contains("ab"));
        assert_ne!(
            key.fingerprint(),
            KeyMaterial::new(Algorithm::Aes128Gcm, vec![0xac; 20]).unwrap().fingerprint()
        );
    }

    #[test]
    fn salt_and_integrity_key_do_not_distinguish_cipher_keys() {
        let of = |algorithm: Algorithm, change: usize| {
            let mut bytes = vec![0xab; algorithm.key_material()];
            bytes[change] ^= 1;
            KeyMaterial::new(algorithm, bytes).unwrap().cipher_fingerprint(algorithm)
        };
        let gcm = of(Algorithm::Aes128Gcm, 16);
        assert_eq!(gcm, of(Algorithm::Aes128Gcm, 19));
        assert_eq!(gcm, of(Algorithm::Aes128CbcSha1, 20));
        assert_ne!(gcm, of(Algorithm::Aes128Gcm, 15));
        assert_ne!(gcm, of(Algorithm::Aes256Gcm, 35));
    }

    #[test]
    fn malformed_key_is_refused_without_being_quoted() {
        let read = |text: &str| KeyMaterial::from_hex(Algorithm::Aes128Gcm, text).unwrap_err();
        assert_eq!(read("abc"), KeyError::NotHexadecimal);
        assert_eq!(read("zz"), KeyError::NotHexadecimal);
        let error = read(&"12".repeat(16)).to_string();
        assert!(error.contains("20 bytes (40 digits)") && error.contains("has 16"), "{error}");
        assert!(!error.contains("1212"), "{error}");
    }
}
