//! Encrypting and authenticating one ESP packet in place.
//!
//! AWS-LC does the cryptography here, with the widest instructions of the processor. This file arranges
//! the inputs as each RFC requires. Batches of packets come here by way of [`super::crypt`].

use super::algorithm::Algorithm;
use super::key::KeyMaterial;
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use wattline_packet::esp::HEADER;

/// A packet could not be sealed or opened. The error has no details on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the packet could not be protected or is not authentic")]
pub struct Refused;

/// A key in use, for both directions. All workers share it; it has no state besides the key.
pub struct Transform {
    algorithm: Algorithm,
    kind: Kind,
    /// The same key for the multi-buffer library, if this machine has it.
    expanded: Option<super::expanded::Expanded>,
}

enum Kind {
    Gcm { key: LessSafeKey, salt: [u8; 4] },
    Cbc(Box<Cbc>),
}

struct Cbc {
    encrypt: EncryptingKey,
    decrypt: DecryptingKey,
    integrity: hmac::Key,
}

impl Transform {
    /// Expands key material.
    ///
    /// # Errors
    /// Fails when it does not fit the algorithm.
    pub fn new(algorithm: Algorithm, key: &KeyMaterial) -> Result<Self, Refused> {
        let (cipher, second) = key.parts(algorithm).ok_or(Refused)?;
        if second.len() != algorithm.second_key() {
            return Err(Refused);
        }
        let long = algorithm.cipher_key() == 32;
        let kind = if algorithm.is_gcm() {
            let gcm = if long { &AES_256_GCM } else { &AES_128_GCM };
            let key = UnboundKey::new(gcm, cipher).map_err(|_| Refused)?;
            let salt = *second.first_chunk().ok_or(Refused)?;
            Kind::Gcm { key: LessSafeKey::new(key), salt }
        } else {
            let aes = if long { &AES_256 } else { &AES_128 };
            let unbound = || UnboundCipherKey::new(aes, cipher).map_err(|_| Refused);
            let hash = match algorithm.icv() {
                12 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
                _ => hmac::HMAC_SHA256,
            };
            Kind::Cbc(Box::new(Cbc {
                encrypt: EncryptingKey::cbc(unbound()?).map_err(|_| Refused)?,
                decrypt: DecryptingKey::cbc(unbound()?).map_err(|_| Refused)?,
                integrity: hmac::Key::new(hash, second),
            }))
        };
        Ok(Self {
            algorithm,
            kind,
            expanded: super::expanded::Expanded::new(algorithm, cipher, second),
        })
    }

    /// Returns the key for the multi-buffer library, if this machine has it.
    pub(super) fn expanded(&self) -> Option<&super::expanded::Expanded> {
        self.expanded.as_ref()
    }

    /// Returns the algorithm of the key.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Protects `packet`, which contains: ESP header, room for the IV, payload with trailer, room
    /// for the ICV. `sequence` is the whole sequence number. The header has its low half; the high
    /// half is authenticated if `extended`. `unique` must never be used twice with one key, since
    /// the IV is made from it.
    ///
    /// # Errors
    /// Fails when the lengths do not fit the algorithm.
    pub fn seal(
        &self,
        packet: &mut [u8],
        sequence: u64,
        extended: bool,
        unique: u64,
    ) -> Result<(), Refused> {
        let Layout { header, iv, body, icv } = Layout::split(self.algorithm, packet)?;
        match &self.kind {
            Kind::Gcm { key, salt } => {
                iv.copy_from_slice(&unique.to_be_bytes());
                let nonce = Nonce::assume_unique_for_key(nonce(salt, iv)?);
                let aad = Authenticated::new(header, sequence, extended);
                let tag = key
                    .seal_in_place_separate_tag(nonce, Aad::from(aad.bytes()), body)
                    .map_err(|_| Refused)?;
                icv.copy_from_slice(tag.as_ref());
            }
            Kind::Cbc(cbc) => {
                // The IV must be unpredictable: the cipher's own image of a number used once (NIST
                // SP 800-38A, appendix C, first method). That number is encrypted as the first
                // block, with an IV of zero.
                iv.copy_from_slice(&number(unique, sequence));
                let end = packet.len() - self.algorithm.icv();
                let zero = EncryptionContext::Iv128([0; 16].into());
                let blocks = &mut packet[HEADER..end];
                cbc.encrypt.less_safe_encrypt(blocks, zero).map_err(|_| Refused)?;
                let tag = cbc.tag(packet, end, sequence, extended);
                packet[end..].copy_from_slice(&tag.as_ref()[..self.algorithm.icv()]);
            }
        }
        Ok(())
    }

    /// Checks and decrypts `packet`, which begins with the ESP header. Returns payload and trailer.
    ///
    /// # Errors
    /// Fails when the packet is not authentic, or when its length is impossible.
    pub fn open<'p>(
        &self,
        packet: &'p mut [u8],
        sequence: u64,
        extended: bool,
    ) -> Result<&'p mut [u8], Refused> {
        let Layout { header, iv, body, icv } = Layout::split(self.algorithm, packet)?;
        match &self.kind {
            Kind::Gcm { key, salt } => {
                let nonce = Nonce::assume_unique_for_key(nonce(salt, iv)?);
                let aad = Authenticated::new(header, sequence, extended);
                let start = HEADER + self.algorithm.iv();
                key.open_in_place(nonce, Aad::from(aad.bytes()), &mut packet[start..])
                    .map_err(|_| Refused)
            }
            Kind::Cbc(cbc) => {
                let mut claimed = [0; 16];
                let claimed = &mut claimed[..icv.len()];
                claimed.copy_from_slice(icv);
                let iv: [u8; 16] = (*iv).try_into().map_err(|_| Refused)?;
                let start = HEADER + iv.len();
                let end = start + body.len();
                let tag = cbc.tag(packet, end, sequence, extended);
                verify_slices_are_equal(&tag.as_ref()[..claimed.len()], claimed)
                    .map_err(|_| Refused)?;
                let context = DecryptionContext::Iv128(iv.into());
                cbc.decrypt.decrypt(&mut packet[start..end], context).map_err(|_| Refused)
            }
        }
    }
}

impl Cbc {
    /// Returns the HMAC of `packet` up to `end` and, if `extended`, of the high half of the
    /// sequence number, which is written in place of the ICV (RFC 4303 section 2.2.1).
    fn tag(&self, packet: &mut [u8], end: usize, sequence: u64, extended: bool) -> hmac::Tag {
        let length = hashed(packet, end, sequence, extended);
        hmac::sign(&self.integrity, &packet[..length])
    }
}

/// Returns the number that becomes the IV of CBC.
pub(super) fn number(unique: u64, sequence: u64) -> [u8; 16] {
    (u128::from(unique) << 64 | u128::from(sequence)).to_be_bytes()
}

/// Makes a packet ready for its HMAC, in the room for the ICV after `end`: see [`Cbc::tag`]. Returns
/// the number of bytes to hash.
pub(super) fn hashed(packet: &mut [u8], end: usize, sequence: u64, extended: bool) -> usize {
    if !extended {
        return end;
    }
    packet[end..end + 4].copy_from_slice(&((sequence >> 32) as u32).to_be_bytes());
    end + 4
}

/// The parts of a packet.
pub(super) struct Layout<'p> {
    pub header: [u8; HEADER],
    pub iv: &'p mut [u8],
    pub body: &'p mut [u8],
    pub icv: &'p mut [u8],
}

impl<'p> Layout<'p> {
    pub fn split(algorithm: Algorithm, packet: &'p mut [u8]) -> Result<Self, Refused> {
        let (header, rest) = packet.split_first_chunk_mut::<HEADER>().ok_or(Refused)?;
        let (iv, rest) = rest.split_at_mut_checked(algorithm.iv()).ok_or(Refused)?;
        let body = rest.len().checked_sub(algorithm.icv()).ok_or(Refused)?;
        if body == 0 || !body.is_multiple_of(algorithm.alignment()) {
            return Err(Refused);
        }
        let (body, icv) = rest.split_at_mut(body);
        Ok(Self { header: *header, iv, body, icv })
    }
}

/// Returns the nonce of GCM (RFC 4106 section 4).
pub(super) fn nonce(salt: &[u8; 4], iv: &[u8]) -> Result<[u8; 12], Refused> {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(salt);
    nonce[4..].copy_from_slice(iv.get(..8).ok_or(Refused)?);
    Ok(nonce)
}

/// Authenticated data in addition to the encrypted part: SPI and sequence number, with the high
/// half in between if the number is extended (RFC 4106 section 5).
#[derive(Clone, Copy)]
pub(super) struct Authenticated {
    bytes: [u8; 12],
    length: usize,
}

impl Authenticated {
    pub fn new(header: [u8; HEADER], sequence: u64, extended: bool) -> Self {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&header);
        if extended {
            bytes[4..].copy_from_slice(&sequence.to_be_bytes());
        }
        Self { bytes, length: if extended { 12 } else { 8 } }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn transform(algorithm: Algorithm, key: &str) -> Transform {
        let key = KeyMaterial::new(algorithm, bytes(key)).unwrap();
        Transform::new(algorithm, &key).unwrap()
    }

    /// Whole ESP packets from draft-mcgrew-gcm-test-01, section 4: the first has an extended
    /// sequence number, the second a 256-bit key.
    #[test]
    fn gcm_seals_as_published() {
        for (algorithm, key, spi, sequence, extended, iv, plain, sealed) in [
            (
                Algorithm::Aes128Gcm,
                "4c80cdefbb5d10da906ac73c3613a634 2e443b68",
                "00004321",
                0x8765_4321_0000_0000,
                true,
                0x4956_ed7e_3b24_4cfe,
                "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000
                 00000000045f736970045f756470037369700963796265726369747902646b00
                 0021000101020201",
                "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34
                 cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce
                 61bc17d768fd9732459018148f6cbe722fd04796562dfdb4",
            ),
            (
                Algorithm::Aes256Gcm,
                "abbccddef00112233445566778899aababbccddef00112233445566778899aab 11223344",
                "4a2cbfe3",
                2,
                false,
                0x0102_0304_0506_0708,
                "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee000000000
                 7002400020bf0000020405b40101040201020201",
                "ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763
                 748a637985771d347f0545659f14e99def842d8eb335f4eecfdbf831824b4c49
                 15956c96",
            ),
        ] {
            let transform = transform(algorithm, key);
            let mut packet = bytes(spi);
            packet.extend((sequence as u32).to_be_bytes());
            packet.extend([0; 8]);
            packet.extend(bytes(plain));
            packet.extend([0; 16]);
            transform.seal(&mut packet, sequence, extended, iv).unwrap();
            assert_eq!(packet[16..], bytes(sealed));
            let opened = transform.open(&mut packet, sequence, extended).unwrap();
            assert_eq!(*opened, bytes(plain)[..]);
        }
    }

    /// NIST SP 800-38A, F.2.2 and F.2.6 (CBC); RFC 2202 section 3, case 1, and RFC 4868
    /// section 2.7.2.1, case AUTH256-1 (HMAC).
    #[test]
    fn cbc_and_hmac_are_as_published() {
        const PLAIN: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51
                             30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
        let short = "2b7e151628aed2a6abf7158809cf4f3c";
        let long = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
        let short_sealed = "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2
                            73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7";
        let long_sealed = "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d
                           39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b";
        let sha1 = "b617318655057264e28bc0b6fb378c8ef146be00";
        let sha256 = "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7";
        for (algorithm, key, sealed, tag) in [
            (Algorithm::Aes128CbcSha1, short, short_sealed, sha1),
            (Algorithm::Aes128CbcSha256, short, short_sealed, sha256),
            (Algorithm::Aes256CbcSha1, long, long_sealed, sha1),
            (Algorithm::Aes256CbcSha256, long, long_sealed, sha256),
        ] {
            let second = "0b".repeat(algorithm.second_key());
            let transform = transform(algorithm, &format!("{key}{second}"));
            let Kind::Cbc(cbc) = &transform.kind else { panic!("not CBC") };
            let mut greeting = *b"Hi There----";
            assert_eq!(cbc.tag(&mut greeting, 8, 0, false).as_ref(), bytes(tag));
            let mut packet = bytes("00004321 00000001 000102030405060708090a0b0c0d0e0f");
            packet.extend(bytes(sealed));
            let end = packet.len();
            packet.resize(end + algorithm.icv(), 0);
            let tag = cbc.tag(&mut packet, end, 1, false);
            packet[end..].copy_from_slice(&tag.as_ref()[..algorithm.icv()]);
            assert_eq!(*transform.open(&mut packet, 1, false).unwrap(), bytes(PLAIN)[..]);
        }
    }

    #[test]
    fn no_iv_of_cbc_comes_twice_or_can_be_foretold_from_the_last() {
        let transform = transform(Algorithm::Aes128CbcSha1, &"01".repeat(36));
        let mut ivs = std::collections::HashSet::new();
        for sequence in 1..1000u64 {
            let mut packet = [0; 8 + 16 + 16 + 12];
            transform.seal(&mut packet, sequence, false, sequence).unwrap();
            assert!(ivs.insert(packet[8..24].to_vec()));
            // If the IV were a counter, most of its bits would not change.
            assert!(packet[8..24].iter().filter(|byte| **byte == 0).count() < 8);
        }
    }

    fn any_algorithm() -> impl Strategy<Value = Algorithm> {
        prop::sample::select(Algorithm::ALL.to_vec())
    }

    proptest! {
        /// A sealed packet opens. With any bit flipped, truncated, under another sequence number or
        /// with another key it does not.
        #[test]
        fn only_sealed_packets_open(
            algorithm in any_algorithm(),
            blocks in 1usize..100,
            sequence: u64,
            extended: bool,
            unique: u64,
            bit: prop::sample::Index,
            cut: prop::sample::Index,
            fill: u8,
        ) {
            let key = |first| {
                let key = vec![first; algorithm.key_material()];
                Transform::new(algorithm, &KeyMaterial::new(algorithm, key).unwrap()).unwrap()
            };
            let transform = key(1);
            let sequence = if extended { sequence } else { sequence & 0xffff_ffff };
            let plain = vec![fill; blocks * algorithm.alignment()];
            let mut packet = vec![0, 0, 16, 1];
            packet.extend((sequence as u32).to_be_bytes());
            packet.resize(HEADER + algorithm.iv(), 0);
            packet.extend(&plain);
            packet.resize(packet.len() + algorithm.icv(), 0);
            transform.seal(&mut packet, sequence, extended, unique).unwrap();
            if blocks * algorithm.alignment() >= 16 {
                let start = HEADER + algorithm.iv();
                prop_assert_ne!(&packet[start..start + plain.len()], &plain[..]);
            }
            let opens = |transform: &Transform, packet: &[u8], sequence| {
                transform.open(&mut packet.to_vec(), sequence, extended).map(|p| p.to_vec())
            };
            prop_assert_eq!(opens(&transform, &packet, sequence), Ok(plain));
            prop_assert_eq!(opens(&key(2), &packet, sequence), Err(Refused));
            let short = &packet[..cut.index(packet.len())];
            prop_assert_eq!(opens(&transform, short, sequence), Err(Refused));
            if extended {
                let other = sequence ^ 1 << 32;
                prop_assert_eq!(opens(&transform, &packet, other), Err(Refused));
            }
            let bit = bit.index(packet.len() * 8);
            packet[bit / 8] ^= 1 << (bit % 8);
            // The receiver takes the low half from the header.
            let low = u32::from_be_bytes(*packet[4..].first_chunk().unwrap());
            let sequence = sequence & !0xffff_ffff | u64::from(low);
            prop_assert_eq!(opens(&transform, &packet, sequence), Err(Refused));
        }
    }
}
