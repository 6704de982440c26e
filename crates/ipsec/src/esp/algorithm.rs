//! Algorithms that protect packets, and their parameters.

use wattline_units::named;

named! {
    /// Encryption and integrity of a security association.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Algorithm {
        /// AES-GCM with a 128-bit key and a 16-byte ICV (RFC 4106).
        Aes128Gcm = "aes128-gcm",
        /// The same with a 256-bit key.
        Aes256Gcm = "aes256-gcm",
        /// AES-CBC with a 128-bit key (RFC 3602) and HMAC-SHA1-96 (RFC 2404).
        Aes128CbcSha1 = "aes128-cbc-sha1",
        /// The same with a 256-bit key.
        Aes256CbcSha1 = "aes256-cbc-sha1",
        /// AES-CBC with a 128-bit key (RFC 3602) and HMAC-SHA-256-128 (RFC 4868).
        Aes128CbcSha256 = "aes128-cbc-sha256",
        /// The same with a 256-bit key.
        Aes256CbcSha256 = "aes256-cbc-sha256",
    }
}

impl Algorithm {
    /// Returns the algorithm with this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Returns true if one key both encrypts and authenticates.
    pub const fn is_gcm(self) -> bool {
        matches!(self, Self::Aes128Gcm | Self::Aes256Gcm)
    }

    /// Returns the length of the encryption key in bytes.
    pub const fn cipher_key(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes128CbcSha1 | Self::Aes128CbcSha256 => 16,
            Self::Aes256Gcm | Self::Aes256CbcSha1 | Self::Aes256CbcSha256 => 32,
        }
    }

    /// Returns the length in bytes of the key material after the encryption key: the salt of GCM
    /// (RFC 4106 section 8.1) or the key of the HMAC.
    pub const fn second_key(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 4,
            Self::Aes128CbcSha1 | Self::Aes256CbcSha1 => 20,
            Self::Aes128CbcSha256 | Self::Aes256CbcSha256 => 32,
        }
    }

    /// Returns the length of the whole key material in bytes.
    pub const fn key_material(self) -> usize {
        self.cipher_key() + self.second_key()
    }

    /// Returns the length of the initialization vector in a packet, in bytes.
    pub const fn iv(self) -> usize {
        if self.is_gcm() { 8 } else { 16 }
    }

    /// Returns the length of the integrity check value in a packet, in bytes.
    pub const fn icv(self) -> usize {
        match self {
            Self::Aes128CbcSha1 | Self::Aes256CbcSha1 => 12,
            _ => 16,
        }
    }

    /// Returns the alignment in bytes of payload, padding and trailer together.
    pub const fn alignment(self) -> usize {
        if self.is_gcm() { 4 } else { 16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::named(algorithm.name()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("des"), None);
    }
}
