//! Results of Intel's multi-buffer library beside published ones, and what it must refuse.

use wattline_ipsec::multibuffer::{Batch, Cipher, Integrity, MOST, Manager, Mode, TAG};

#[track_caller]
fn manager() -> Option<Manager> {
    let manager = Manager::new();
    if manager.is_none() {
        wattline_needs::tool("libipsec-mb");
    }
    manager
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

const SHORT: &str = "2b7e151628aed2a6abf7158809cf4f3c";
const LONG: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";

/// Test cases 4 and 16 of "The Galois/Counter Mode of Operation" (McGrew, Viega), appendix B.
#[test]
fn gcm_is_as_published() {
    let plain = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                 1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
    let more = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let nonce: [u8; 12] = bytes("cafebabefacedbaddecaf888").try_into().unwrap();
    let Some(mut manager) = manager() else { return };
    for (cipher, key, sealed, tag) in [
        (
            Cipher::Aes128,
            "feffe9928665731c6d6a8f9467308308",
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
            "5bc94fbc3221a5db94fae95ae7121a47",
        ),
        (
            Cipher::Aes256,
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ),
    ] {
        let key = manager.key(Mode::Gcm(cipher), &bytes(key), &[]).unwrap();
        let mut body = bytes(plain);
        let mut made = [0; TAG];
        manager.gcm_seal(&key, &nonce, &more, &mut body, &mut made).unwrap();
        assert_eq!((&body, &made[..]), (&bytes(sealed), &bytes(tag)[..]), "{cipher:?}");
        let made = manager.gcm_open(&key, &nonce, &more, &mut body).unwrap();
        assert_eq!((&body, &made[..]), (&bytes(plain), &bytes(tag)[..]), "{cipher:?}");
        let made = manager.gcm_open(&key, &nonce, &more[1..], &mut body).unwrap();
        assert_ne!(made[..], bytes(tag)[..]);
    }
}

/// NIST SP 800-38A, F.2.1 and F.2.5: its IV is encrypted as a first block that gives it. RFC 2202,
/// section 3, case 1, and RFC 4868, section 2.7.2.1, case AUTH256-1 (HMAC).
#[test]
fn cbc_and_hmac_are_as_published() {
    let plain = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51
                 30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
    let short = "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2
                 73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7";
    let long = "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d
                39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b";
    let iv: [u8; 16] = std::array::from_fn(|at| at as u8);
    let Some(mut manager) = manager() else { return };
    for (cipher, integrity, key, sealed, tag) in [
        (Cipher::Aes128, Integrity::Sha1, SHORT, short, "b617318655057264e28bc0b6"),
        (Cipher::Aes256, Integrity::Sha1, LONG, long, "b617318655057264e28bc0b6"),
        (Cipher::Aes128, Integrity::Sha256, SHORT, short, "198a607eb44bfbc69903a0f1cf2bbdc5"),
        (Cipher::Aes256, Integrity::Sha256, LONG, long, "198a607eb44bfbc69903a0f1cf2bbdc5"),
    ] {
        let mode = Mode::Cbc(cipher, integrity);
        let second = vec![0x0b; if integrity == Integrity::Sha1 { 20 } else { 32 }];
        let key = manager.key(mode, &bytes(key), &second).unwrap();
        // The block of zeros gives the block to which the IV has to be deciphered.
        let mut first = iv;
        manager.cbc_open(&key, &[0; 16], &mut first).unwrap();
        let mut packets: Vec<Vec<u8>> = (0..MOST)
            .map(|at| [&b"Hi There"[..], &first, &bytes(plain), &[at as u8]].concat())
            .collect();
        let mut batch = Batch::new(mode);
        for packet in &mut packets {
            assert!(batch.push(&key, packet, 8..8 + 16 + 64, 8));
        }
        manager.cbc_seal(&mut batch).unwrap();
        for (at, (packet, made)) in batch.packets().enumerate() {
            assert_eq!(&packet[8..24], iv);
            assert_eq!(packet[24..88], bytes(sealed)[..], "{mode:?} {at}");
            assert_eq!(packet[88], at as u8, "nothing beyond is written");
            assert_eq!(made[..bytes(tag).len()], bytes(tag)[..], "{mode:?} {at}");
        }
        let mut body = bytes(sealed);
        manager.cbc_open(&key, &iv, &mut body).unwrap();
        assert_eq!(body, bytes(plain));
    }
}

#[test]
fn unfitting_lengths_are_refused() {
    let Some(mut manager) = manager() else { return };
    let (gcm, cbc) = (Mode::Gcm(Cipher::Aes128), Mode::Cbc(Cipher::Aes128, Integrity::Sha1));
    let mut key =
        |mode, cipher: usize, second: usize| manager.key(mode, &vec![1; cipher], &vec![2; second]);
    for (mode, cipher, second) in [(gcm, 32, 0), (gcm, 16, 4), (cbc, 16, 32), (cbc, 0, 20)] {
        assert!(key(mode, cipher, second).is_none(), "{mode:?} {cipher} {second}");
    }
    let (by_gcm, by_cbc) = (key(gcm, 16, 0).unwrap(), key(cbc, 16, 20).unwrap());
    let other = key(Mode::Cbc(Cipher::Aes128, Integrity::Sha256), 16, 32).unwrap();
    let refused = [
        (&by_gcm, (0, 16), 16),
        (&other, (0, 16), 16),
        (&by_cbc, (0, 17), 16),
        (&by_cbc, (96, 112), 16),
        (&by_cbc, (32, 16), 16),
        (&by_cbc, (0, 16), 101),
        (&by_cbc, (0, 16), 0),
    ];
    let mut packets = vec![[0; 100]; refused.len()];
    let mut batch = Batch::new(cbc);
    for (packet, (key, (start, end), hashed)) in packets.iter_mut().zip(refused) {
        assert!(!batch.push(key, packet, start..end, hashed), "{:?} {start} {hashed}", key.mode());
    }
    assert!(batch.is_empty());

    let mut packets = vec![[0; 100]; MOST + 1];
    let mut batch = Batch::new(cbc);
    let added = packets.iter_mut().map(|it| batch.push(&by_cbc, it, 0..0, 8));
    assert_eq!(added.filter(|added| *added).count(), MOST);
    assert_eq!(batch.len(), MOST);
    assert!(manager.cbc_seal(&mut batch).is_err(), "nothing to encrypt");
    assert!(manager.hash(&mut batch).is_ok());
    assert!(batch.packets().all(|(packet, tag)| packet == [0; 100] && *tag != [0; TAG]));
    assert!(manager.cbc_seal(&mut Batch::new(cbc)).is_ok(), "none is no failure");
    assert!(manager.gcm_seal(&by_cbc, &[0; 12], &[], &mut [0; 16], &mut [0; TAG]).is_err());
    assert!(manager.gcm_open(&by_cbc, &[0; 12], &[], &mut [0; 16]).is_err());
    assert!(manager.cbc_open(&by_gcm, &[0; 16], &mut [0; 16]).is_err());
    assert!(manager.cbc_open(&by_cbc, &[0; 16], &mut [0; 15]).is_err());
    assert!(manager.cbc_open(&by_cbc, &[0; 16], &mut []).is_err());
}
