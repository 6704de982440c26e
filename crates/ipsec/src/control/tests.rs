//! Whole starts of the application, with the packets that they send.

use super::*;
use crate::section::SECTIONS;
use iv_ranges::tests::Random;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use wattline_dataplane::testing::{Bench, MAC_A, Router, frame4, net};

const KEY_IN: &str = "00112233445566778899aabbccddeeff01020304";
const KEY_OUT: &str = "ffeeddccbbaa9988776655443322110004030201";
const ALGORITHM: &str = "aes128-gcm";

/// Parts of a tunnel that tests vary.
#[derive(Clone)]
struct Tunnel {
    name: &'static str,
    algorithm: &'static str,
    spi_out: u32,
    key_in: String,
    key_out: String,
}

impl Tunnel {
    fn plain() -> Self {
        let (key_in, key_out) = (KEY_IN.to_owned(), KEY_OUT.to_owned());
        Self { name: "t", algorithm: ALGORITHM, spi_out: 0x1002, key_in, key_out }
    }
}

/// Directory of state, and a configuration for it.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Makes a site whose plain tunnel has been declared new.
    fn declared() -> Self {
        let site = Self::new();
        let keys = site.declare(&[Tunnel::plain()], &["t"]).unwrap();
        assert!(keys.len() == 2 && keys.iter().all(|key| key.is_new), "{keys:?}");
        site
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn settings(&self, tunnels: &[Tunnel]) -> IpsecSettings {
        let mut text = format!(
            "[[port]]\nname = \"a\"\ncapture = {{ read = \"x\" }}\n[ipsec]\nstate = {:?}\n",
            self.state()
        );
        for (at, tunnel) in tunnels.iter().enumerate() {
            let Tunnel { name, algorithm, spi_out, key_in, key_out } = tunnel;
            text += &format!(
                "[[ipsec_tunnel]]\nname = \"{name}\"\nlocal = \"198.51.100.1\"\n\
                 remote = \"198.51.100.2\"\nalgorithm = \"{algorithm}\"\nspi_in = {}\n\
                 spi_out = {spi_out}\nkey_in = \"{key_in}\"\nkey_out = \"{key_out}\"\n",
                0x1001 + 16 * at,
            );
        }
        text += "[[ipsec_policy]]\nsource = \"192.0.2.0/24\"\ndestination = \"203.0.113.0/24\"\n\
                 tunnel = \"t\"\n";
        let config = Config::parse_with(&text, "test", &[&SECTIONS]).unwrap();
        let mut settings = config.of::<IpsecSettings>().unwrap().clone();
        settings.file = "/etc/wattline/router.toml".into();
        settings
    }

    fn declare(
        &self,
        tunnels: &[Tunnel],
        names: &[&str],
    ) -> Result<Vec<keys::DeclaredKey>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        keys::declare_new(&self.settings(tunnels), &names).map_err(|errors| errors.join("\n"))
    }

    fn start_all(&self, tunnels: &[Tunnel]) -> Result<Ipsec, String> {
        match Ipsec::new(&self.settings(tunnels)) {
            Ok(ipsec) => Ok(ipsec.unwrap()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn start(&self, tunnel: &Tunnel) -> Result<Ipsec, String> {
        self.start_all(std::slice::from_ref(tunnel))
    }

    /// Returns the only file with this extension.
    fn file(&self, ending: &str) -> PathBuf {
        let mut files = files(&self.state());
        files.retain(|path| path.to_str().unwrap().ends_with(ending));
        assert_eq!(files.len(), 1, "{ending}");
        files.remove(0)
    }

    /// Returns the state of the key for sending or for receiving.
    fn key_file(&self, role: &str) -> PathBuf {
        let mut files = files(&self.state());
        files.retain(|path| {
            std::fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("role {role}")))
        });
        assert_eq!(files.len(), 1, "{role}");
        files.remove(0)
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    for file in files(from) {
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// A packet as it was sent: SPI, sequence number and IV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sent {
    spi: u32,
    sequence: u32,
    iv: u64,
}

/// Sends packets through the first tunnel, and reads them from the wire.
fn send(ipsec: &Ipsec, count: usize) -> Vec<Sent> {
    let mut router = Router::with_features(esp::features(&ipsec.publisher, 1000, 50));
    router.routes.route(net("198.51.100.0/24"), &Bench::forward(1)).unwrap();
    router.routes.publish().unwrap();
    (0..count).for_each(|_| router.ports[0].send(&frame4(MAC_A, 64, b"payload.")));
    router.settle();
    let word = |bytes: &[u8]| u32::from_be_bytes(*bytes.first_chunk().unwrap());
    let read = |frame: Vec<u8>| Sent {
        spi: word(&frame[34..]),
        sequence: word(&frame[38..]),
        iv: u64::from_be_bytes(*frame[42..].first_chunk().unwrap()),
    };
    router.ports[1].sent().into_iter().map(read).collect()
}

/// Returns the number before the next router's first packet.
fn next_router_after(all_ended: bool) -> u64 {
    let site = Site::declared();
    let mut ipsec = site.start(&Tunnel::plain()).unwrap();
    let worker = ipsec.tunnels[0].0.association.clone();
    worker.sequence.take(5);
    ipsec.finish(all_ended);
    // A worker that was left behind continues for a moment.
    if !all_ended {
        worker.sequence.take(5);
    }
    drop(ipsec);
    let next = site.start(&Tunnel::plain()).unwrap();
    let next = &next.tunnels[0].0.association;
    assert!(next.sequence.last() >= worker.sequence.last(), "a number would be used twice");
    assert_ne!(next.iv_offset, worker.iv_offset);
    next.sequence.last()
}

#[test]
fn next_router_continues_above_all_reserved_numbers() {
    assert_eq!(next_router_after(true), 5);
    assert!(next_router_after(false) >= 10);
}

/// Starts with intact state: ended in order, killed, under other SPIs and back, with another salt,
/// killed in the middle of a write.
fn starts_with_intact_state(starts: u64) {
    let site = Site::declared();
    let mut random = Random(starts);
    let (mut ivs, mut highest) = (HashSet::new(), HashMap::new());
    for start in 0..starts {
        let mut tunnel = Tunnel::plain();
        tunnel.spi_out = 0x1002 + (random.next() % 3) as u32;
        if random.next().is_multiple_of(2) {
            tunnel.key_out = KEY_OUT.replace("04030201", "a4030201");
        }
        if random.next().is_multiple_of(4) {
            let torn = site.key_file("send").with_extension("state.new");
            std::fs::write(torn, "wattline key state 2\nkey 5a").unwrap();
        }
        let mut ipsec = site.start(&tunnel).unwrap_or_else(|error| panic!("{start}: {error}"));
        let count = (random.next() % 90) as usize;
        let sent = send(&ipsec, count);
        assert_eq!(sent.len(), count);
        for packet in sent {
            assert!(ivs.insert(packet.iv), "{start}: {packet:?}");
            let before = highest.insert(packet.spi, packet.sequence);
            assert!(before < Some(packet.sequence), "{start}: {packet:?}");
        }
        if random.next().is_multiple_of(2) {
            ipsec.finish(true);
        }
    }
}

#[test]
fn ivs_never_repeat_over_20_starts() {
    starts_with_intact_state(20);
}

/// Puts an old state back before each start, so that all begin with the same number.
fn starts_from_a_backup(starts: u64) {
    let site = Site::declared();
    let backup = site.folder.path().join("backup");
    let mut ipsec = site.start(&Tunnel::plain()).unwrap();
    let mut ivs: HashSet<u64> = send(&ipsec, 9).iter().map(|sent| sent.iv).collect();
    ipsec.finish(true);
    drop(ipsec);
    copy(&site.state(), &backup);
    let mut firsts = HashSet::new();
    for start in 0..starts {
        copy(&backup, &site.state());
        let ipsec = site.start(&Tunnel::plain()).unwrap();
        let sent = send(&ipsec, 64);
        firsts.insert(sent[0].sequence);
        for packet in sent {
            assert!(ivs.insert(packet.iv), "{start}: {packet:?}");
        }
    }
    assert_eq!(firsts, HashSet::from([10]));
}

#[test]
fn ivs_differ_after_a_restored_backup() {
    starts_from_a_backup(5);
}

/// The IV of CBC is made from the same number.
#[test]
fn ivs_of_cbc_differ_over_starts() {
    let site = Site::new();
    let key = |first: u8| format!("{first:02x}").repeat(36);
    let tunnel = |spi_out| Tunnel {
        algorithm: "aes128-cbc-sha1",
        spi_out,
        key_in: key(1),
        key_out: key(2),
        ..Tunnel::plain()
    };
    site.declare(&[tunnel(0x1002)], &["t"]).unwrap();
    let mut ivs = HashSet::new();
    for spi in [0x1002, 0x2002, 0x1002, 0x2002] {
        let ipsec = site.start(&tunnel(spi)).unwrap();
        assert!(send(&ipsec, 20).iter().all(|sent| ivs.insert(sent.iv)));
    }
    assert_eq!(ivs.len(), 80);
}

#[test]
fn key_without_state_is_refused_until_it_is_declared_new() {
    let site = Site::new();
    let tunnel = Tunnel::plain();
    for lost in 0..3 {
        let error = site.start(&tunnel).err().unwrap();
        let command = "`wattline new-keys /etc/wattline/router.toml t`";
        assert!(error.contains(command) && error.contains("key_out"), "{lost}: {error}");
        assert!(error.contains(site.state().to_str().unwrap()), "{error}");
        let keys = site.declare(std::slice::from_ref(&tunnel), &["t"]).unwrap();
        assert!(keys.iter().all(|key| key.is_new));
        let first = send(&site.start(&tunnel).unwrap(), 1)[0];
        // A second declaration changes nothing.
        let keys = site.declare(std::slice::from_ref(&tunnel), &["t"]).unwrap();
        assert!(keys.iter().all(|key| !key.is_new));
        let next = send(&site.start(&tunnel).unwrap(), 1)[0];
        assert!(next.sequence > first.sequence && next.iv != first.iv);
        std::fs::remove_dir_all(site.state()).unwrap();
    }
    let error = site.declare(&[tunnel], &["u"]).unwrap_err();
    assert!(error.contains("u is not a tunnel") && error.contains("allowed: t"), "{error}");
}

#[test]
fn only_named_tunnels_are_declared() {
    let site = Site::new();
    let other = Tunnel {
        name: "u",
        key_in: KEY_IN.replace("00", "77"),
        key_out: KEY_OUT.replace("ff", "66"),
        ..Tunnel::plain()
    };
    let both = [Tunnel::plain(), other];
    site.declare(&both, &["u"]).unwrap();
    let error = site.start_all(&both).err().unwrap();
    assert!(error.contains("new-keys /etc/wattline/router.toml t`"), "{error}");
}

/// The same cipher key in both directions, in two tunnels, or in two algorithms, whatever follows
/// it.
#[test]
fn one_cipher_key_for_two_uses_is_refused() {
    let salted = |key: &str| format!("{}99999999", &key[..32]);
    let with_mac = |key: &str| format!("{}{}", &key[..32], "5a".repeat(20));
    let plain = Tunnel::plain();
    let other = Tunnel {
        name: "u",
        key_in: KEY_IN.replace("00", "77"),
        key_out: KEY_OUT.replace("ff", "66"),
        ..plain.clone()
    };
    let mac = Tunnel { algorithm: "aes128-cbc-sha1", key_in: "1f".repeat(36), ..other.clone() };
    let twice = |key_in: &str| vec![Tunnel { key_in: key_in.to_owned(), ..plain.clone() }];
    for (case, tunnels) in [
        ("both directions", twice(KEY_OUT)),
        ("both directions, another salt", twice(&salted(KEY_OUT))),
        ("sent by both", vec![plain.clone(), Tunnel { key_out: KEY_OUT.into(), ..other.clone() }]),
        (
            "sent by both, another salt",
            vec![plain.clone(), Tunnel { key_out: salted(KEY_OUT), ..other.clone() }],
        ),
        (
            "sent by one and received by the other",
            vec![plain.clone(), Tunnel { key_in: salted(KEY_OUT), ..other.clone() }],
        ),
        ("GCM and CBC", vec![plain.clone(), Tunnel { key_out: with_mac(KEY_OUT), ..mac }]),
    ] {
        let site = Site::new();
        let error = site.declare(&tunnels, &["t"]).unwrap_err();
        assert!(error.contains("is the same as"), "{case}: {error}");
        assert!(site.start_all(&tunnels).err().unwrap().contains("is the same as"), "{case}");
    }
}

#[test]
fn key_of_the_other_direction_is_refused() {
    let swapped = |salt: &str| Tunnel {
        key_in: KEY_OUT.to_owned(),
        key_out: format!("{}{salt}", &KEY_IN[..32]),
        ..Tunnel::plain()
    };
    for tunnel in [swapped("01020304"), swapped("99999999")] {
        let site = Site::declared();
        drop(site.start(&Tunnel::plain()).unwrap());
        for error in [
            site.start(&tunnel).err().unwrap(),
            site.declare(std::slice::from_ref(&tunnel), &["t"]).unwrap_err(),
        ] {
            assert!(error.contains("has been used for receiving before"), "{error}");
            assert!(error.contains("has been used for sending before"), "{error}");
        }
    }
}

#[test]
fn two_routers_cannot_use_one_key() {
    let site = Site::declared();
    let first = site.start(&Tunnel::plain()).unwrap();
    assert!(site.start(&Tunnel::plain()).err().unwrap().contains("another router"));
    drop(first);
    site.start(&Tunnel::plain()).unwrap();
}

type Damage = fn(&Path);

/// Damages of a file, with the fault that is reported.
const DAMAGES: &[(&str, Damage, &str)] = &[
    ("empty", |path| std::fs::write(path, "").unwrap(), "is empty"),
    ("truncated by a byte", |path| cut(path, 1), ""),
    ("truncated by half", |path| cut(path, 15), ""),
    ("one byte more", |path| grow(path, b"\n"), ""),
    ("text", |path| std::fs::write(path, "12x\n").unwrap(), ""),
    ("a number", |path| std::fs::write(path, "12\n").unwrap(), ""),
    ("zeros", |path| std::fs::write(path, [0; 21]).unwrap(), ""),
    ("no UTF-8", |path| std::fs::write(path, [0xff; 21]).unwrap(), "is damaged"),
    ("a digit", |path| flip(path), ""),
    ("too long", |path| grow(path, &vec![b'0'; 2 << 20]), "is too long"),
    ("directory", |path| replace(path, |path| std::fs::create_dir(path).unwrap()), "not a regular"),
    ("symbolic link", |path| replace(path, link), "not a regular"),
    ("dangling link", |path| replace(path, |path| symlink("/nowhere", path)), "not a regular"),
    ("pipe", |path| replace(path, pipe), "not a regular"),
    ("socket", |path| replace(path, |path| drop(listen(path))), "not a regular"),
    ("empty, next to an unfinished write", |path| interrupted(path), "is empty"),
];

fn cut(path: &Path, bytes: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

fn grow(path: &Path, more: &[u8]) {
    std::io::Write::write_all(&mut std::fs::File::options().append(true).open(path).unwrap(), more)
        .unwrap();
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[9] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}

fn replace(path: &Path, by: impl Fn(&Path)) {
    std::fs::rename(path, path.with_extension("moved")).unwrap();
    by(path);
}

fn symlink(to: &str, path: &Path) {
    std::os::unix::fs::symlink(to, path).unwrap();
}

fn link(path: &Path) {
    symlink(path.with_extension("moved").to_str().unwrap(), path);
}

fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

fn listen(path: &Path) -> std::os::unix::net::UnixListener {
    std::os::unix::net::UnixListener::bind(path).unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The file shows which nonces a key has used; a change of it could repeat nonces.
#[test]
fn state_that_others_may_read_is_refused() {
    let site = Site::declared();
    drop(site.start(&Tunnel::plain()).unwrap());
    for path in [site.key_file("send"), site.key_file("receive"), site.file(".in")] {
        for mode in [0o644, 0o640, 0o602] {
            set_mode(&path, mode);
            let error = site.start(&Tunnel::plain()).err().unwrap();
            let remedy = format!("`chmod 600 {}`", path.display());
            assert!(error.contains(&format!("has mode {mode:04o}")), "{error}");
            assert!(error.contains(&remedy), "{error}");
        }
        set_mode(&path, 0o600);
        drop(site.start(&Tunnel::plain()).unwrap());
    }
}

fn interrupted(path: &Path) {
    std::fs::copy(path, path.with_extension("state.new")).unwrap();
    std::fs::write(path, "").unwrap();
}

#[test]
fn damaged_state_is_an_error_that_names_the_file_and_the_remedy() {
    type Find = fn(&Site) -> PathBuf;
    let finds: [(&str, Find); 3] = [
        ("sending key", |site| site.key_file("send")),
        ("receiving key", |site| site.key_file("receive")),
        ("received numbers", |site| site.file(".in")),
    ];
    for (of, find) in finds {
        for (name, damage, fault) in DAMAGES {
            let site = Site::declared();
            let mut ipsec = site.start(&Tunnel::plain()).unwrap();
            ipsec.finish(true);
            drop(ipsec);
            let path = find(&site);
            damage(&path);
            for error in [
                site.start(&Tunnel::plain()).err().unwrap_or_else(|| panic!("{of}: {name}")),
                site.declare(&[Tunnel::plain()], &["t"]).err().unwrap_or_default(),
            ] {
                // Received numbers are read at a start only.
                if error.is_empty() && of == "received numbers" {
                    continue;
                }
                let (path, text) = (path.to_str().unwrap(), format!("{of}: {name}: {error}"));
                assert!(error.contains(path) && error.contains(fault), "{text}");
                assert!(error.contains("replace this key at both ends, then delete"), "{text}");
            }
            // Without the file, the key is unknown.
            if of == "sending key" {
                let there = path.symlink_metadata().unwrap();
                let remove =
                    if there.is_dir() { std::fs::remove_dir } else { std::fs::remove_file };
                remove(&path).unwrap();
                let error = site.start(&Tunnel::plain()).err().unwrap();
                assert!(error.contains("new-keys"), "{of}: {name}: {error}");
            }
        }
    }
}

/// Two tunnels whose files got each other's names, all of one kind at a time.
#[test]
fn state_of_another_key_is_refused() {
    let other = |key: &str| format!("77{}", &key[2..]);
    let u = Tunnel {
        name: "u",
        spi_out: 0x1012,
        key_in: other(KEY_IN),
        key_out: other(KEY_OUT),
        ..Tunnel::plain()
    };
    let both = [Tunnel::plain(), u];
    for kind in ["role send", "role receive", ".in\n"] {
        for by_link in [false, true] {
            let site = Site::new();
            site.declare(&both, &["t", "u"]).unwrap();
            let mut ipsec = site.start_all(&both).unwrap();
            ipsec.finish(true);
            drop(ipsec);
            let mut found = files(&site.state());
            found.retain(|path| std::fs::read_to_string(path).unwrap().contains(kind));
            let [one, another] = &found[..] else { panic!("{kind}: {found:?}") };
            let aside = one.with_extension("aside");
            std::fs::rename(one, &aside).unwrap();
            if by_link {
                std::fs::hard_link(another, one).unwrap();
            } else {
                std::fs::rename(another, one).unwrap();
                std::fs::rename(&aside, another).unwrap();
            }
            let error = site.start_all(&both).err().unwrap_or_else(|| panic!("{kind}: swapped"));
            let fault = if by_link { "another" } else { "replace this key at both ends" };
            assert!(error.contains(fault), "{kind}: {error}");
        }
    }
}

/// Without the number, received packets could be accepted again.
#[test]
fn lost_number_of_received_packets_is_an_error() {
    let site = Site::declared();
    drop(site.start(&Tunnel::plain()).unwrap());
    let path = site.file(".in");
    std::fs::remove_file(&path).unwrap();
    let error = site.start(&Tunnel::plain()).err().unwrap();
    assert!(error.contains(path.to_str().unwrap()) && error.contains("is missing"), "{error}");
}

#[test]
fn directory_of_state_that_is_none_is_an_error() {
    for make in [
        |path: &Path| std::fs::write(path, "").unwrap(),
        pipe,
        |path: &Path| {
            symlink("/nowhere/at/all", path);
        },
    ] {
        let site = Site::new();
        make(&site.state());
        let error = site.start(&Tunnel::plain()).err().unwrap();
        assert!(error.contains(site.state().to_str().unwrap()), "{error}");
    }
}

/// Packets beyond the number on disk are dropped and counted until it can be written again.
#[test]
fn numbers_that_cannot_be_written_are_not_used() {
    let site = Site::declared();
    let mut ipsec = site.start(&Tunnel::plain()).unwrap();
    let first = send(&ipsec, 1)[0];
    // As a full disk would, this keeps a new file from being written.
    let obstacle = site.key_file("send").with_extension("state.new");
    std::fs::create_dir(&obstacle).unwrap();
    let sequence = &ipsec.tunnels[0].0.association.clone().sequence;
    while sequence.take(1 << 22).count > 0 {}
    let reserved = sequence.reserved();
    let tick = |ipsec: &mut Ipsec| {
        ipsec.due = Instant::now();
        ipsec.tick(Instant::now());
        std::thread::sleep(Duration::from_millis(5));
    };
    for _ in 0..20 {
        tick(&mut ipsec);
    }
    assert_eq!(sequence.reserved(), reserved);
    assert_eq!(send(&ipsec, 7).len(), 0);
    let stats = ipsec.counted();
    let dropped = &stats.tunnels[0].outbound.association.dropped;
    assert_eq!(dropped.get("esp-sequence-exhausted"), Some(&7), "{stats:?}");
    // The next start would repeat nothing either, and cannot write.
    std::fs::remove_dir(&obstacle).unwrap();
    wattline_needs::until("numbers are reserved", || {
        tick(&mut ipsec);
        sequence.reserved() != reserved
    });
    let next = send(&ipsec, 1)[0];
    assert_eq!(u64::from(next.sequence), reserved + 1);
    assert_eq!(next.iv, first.iv.wrapping_add(u64::from(next.sequence - first.sequence)));
    drop(ipsec);
    std::fs::create_dir(&obstacle).unwrap();
    let error = site.start(&Tunnel::plain()).err().unwrap();
    assert!(error.contains(".state: cannot be written"), "{error}");
}

/// A backup is put back, or the directory removed, while the router runs.
#[test]
fn state_that_is_replaced_in_use_is_not_written_to() {
    let site = Site::declared();
    let backup = site.folder.path().join("backup");
    copy(&site.state(), &backup);
    for remove in [false, true] {
        let mut ipsec = site.start(&Tunnel::plain()).unwrap();
        let first = send(&ipsec, 1)[0];
        std::fs::remove_dir_all(site.state()).unwrap();
        if !remove {
            copy(&backup, &site.state());
        }
        let sequence = &ipsec.tunnels[0].0.association.clone().sequence;
        while sequence.take(1 << 22).count > 0 {}
        for _ in 0..5 {
            ipsec.due = Instant::now();
            ipsec.tick(Instant::now());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(send(&ipsec, 1), []);
        drop(ipsec);
        match site.start(&Tunnel::plain()) {
            Ok(next) => assert_ne!(send(&next, 1)[0].iv, first.iv),
            Err(error) => assert!(remove && error.contains("new-keys"), "{error}"),
        }
    }
}

/// A peer with a new SA could not infer the high half of a large number.
#[test]
fn numbers_begin_anew_under_a_new_spi() {
    let site = Site::declared();
    let ipsec = site.start(&Tunnel::plain()).unwrap();
    let last = send(&ipsec, 9).last().unwrap().sequence;
    drop(ipsec);
    let other = Tunnel { spi_out: 0x2002, ..Tunnel::plain() };
    assert_eq!(send(&site.start(&other).unwrap(), 1)[0].sequence, 1);
    assert!(send(&site.start(&Tunnel::plain()).unwrap(), 1)[0].sequence > last);
}
