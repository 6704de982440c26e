//! Lengths that the multi-buffer library must refuse.

use wattline_ipsec::multibuffer::{Batch, Cipher, Integrity, MOST, Manager, Mode, TAG};

#[track_caller]
fn manager() -> Option<Manager> {
    let manager = Manager::new();
    if manager.is_none() {
        wattline_needs::tool("libipsec-mb");
    }
    manager
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
