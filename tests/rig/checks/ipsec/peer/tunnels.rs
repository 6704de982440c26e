//! One tunnel of each kind, as configured at both ends.

use super::super::{INSIDE, ip};
use super::site::ECHO;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

/// A tunnel.
pub struct Kind {
    algorithm: &'static str,
    ipv6: bool,
    extended: bool,
    udp: bool,
}

const fn kind(algorithm: &'static str, ipv6: bool, extended: bool, udp: bool) -> Kind {
    Kind { algorithm, ipv6, extended, udp }
}

/// Each algorithm, and each of the other three properties with at least one of GCM and of CBC.
pub const KINDS: [Kind; 8] = [
    kind("aes128-gcm", false, false, false),
    kind("aes256-gcm", true, true, false),
    kind("aes128-cbc-sha1", false, false, false),
    kind("aes256-cbc-sha1", true, true, false),
    kind("aes128-cbc-sha256", true, false, false),
    kind("aes256-cbc-sha256", false, true, false),
    kind("aes128-gcm", false, true, true),
    kind("aes256-cbc-sha256", true, false, true),
];

impl Kind {
    /// Lengths of the keys of cipher (with salt) and HMAC in bytes.
    fn key_lengths(&self) -> (usize, usize) {
        let cipher = if self.algorithm.starts_with("aes256") { 32 } else { 16 };
        match self.algorithm {
            gcm if gcm.ends_with("gcm") => (cipher + 4, 0),
            sha1 if sha1.ends_with("sha1") => (cipher, 20),
            _ => (cipher, 32),
        }
    }

    fn ends(&self) -> [&'static str; 2] {
        if self.ipv6 { ["2001:db8:9::1", "2001:db8:9::2"] } else { ["192.0.2.1", "192.0.2.2"] }
    }

    /// An association as `ip xfrm state add` has it.
    fn state(&self, number: usize, to_guest: bool) -> String {
        let [router, guest] = self.ends();
        let (from, to) = if to_guest { (router, guest) } else { (guest, router) };
        let key = key(number, to_guest, self.key_lengths());
        let (cipher, integrity) = key.split_at(2 * self.key_lengths().0);
        let mut line = format!(
            "xfrm state add src {from} dst {to} proto esp spi {:#x} reqid {} mode tunnel ",
            spi(number, to_guest),
            number + 1
        );
        line += if self.extended {
            "replay-window 64 flag esn af-unspec "
        } else {
            // Without it the kernel would take no inner packets of the other IP version.
            "replay-window 32 flag af-unspec "
        };
        line += &match self.algorithm {
            gcm if gcm.ends_with("gcm") => format!("aead rfc4106(gcm(aes)) 0x{cipher} 128"),
            cbc => {
                let (name, bits) =
                    if cbc.ends_with("sha1") { ("sha1", 96) } else { ("sha256", 128) };
                format!("enc cbc(aes) 0x{cipher} auth-trunc hmac({name}) 0x{integrity} {bits}")
            }
        };
        line + if self.udp { " encap espinudp 4500 4500 0.0.0.0" } else { "" }
    }

    pub fn name(&self) -> String {
        let mut name = format!("{} in IPv{}", self.algorithm, if self.ipv6 { 6 } else { 4 });
        name += if self.udp { " and UDP" } else { "" };
        name + if self.extended { ", ESN" } else { "" }
    }
}

/// The number of a tunnel's association to or from the guest.
pub fn spi(number: usize, to_guest: bool) -> usize {
    0x1001 + 2 * number + usize::from(to_guest)
}

/// A key of its own for each tunnel and direction, in hexadecimal digits.
fn key(number: usize, to_guest: bool, (cipher, integrity): (usize, usize)) -> String {
    let first = 0x11 * (1 + number) + usize::from(to_guest);
    (0..cipher + integrity).map(|index| format!("{:02x}", (first + 7 * index) as u8)).collect()
}

/// Addresses, associations and policies of the guest, and its echo server.
pub fn guest(machine: &mut Machine) -> Result<(), Error> {
    let mut lines = String::from(
        "address add 192.0.2.2/24 dev eth0\n\
         address add 2001:db8:9::2/64 dev eth0 nodad\n\
         link set eth0 up\n\
         route add 10.1.0.0/24 via 192.0.2.1\n\
         route add 2001:db8:1::/64 via 2001:db8:9::1",
    );
    for (number, kind) in KINDS.iter().enumerate() {
        let [router, guest] = kind.ends();
        let own = [format!("10.2.{number}.0/24"), format!("2001:db8:2:{number}::/64")];
        let _ = write!(
            lines,
            "\naddress add 10.2.{number}.1/32 dev lo\n\
             address add 2001:db8:2:{number}::1/128 dev lo nodad\n{}\n{}",
            kind.state(number, true),
            kind.state(number, false)
        );
        for (far, own) in ["10.1.0.0/24", "2001:db8:1::/64"].iter().zip(&own) {
            let reqid = number + 1;
            for (from, to, direction, ends) in
                [(own.as_str(), *far, "out", (guest, router)), (far, own, "in", (router, guest))]
            {
                let _ = write!(
                    lines,
                    "\nxfrm policy add src {from} dst {to} dir {direction} tmpl src {} dst {} \
                     proto esp reqid {reqid} mode tunnel",
                    ends.0, ends.1
                );
            }
        }
    }
    ip(machine, None, &lines)?;
    let line = format!("(nc -ll -p {ECHO} -e cat </dev/null >/dev/null 2>&1 & true)");
    machine.run(&line, INSIDE).map(drop)
}

/// Wattline's, with all tunnels at once.
pub fn configuration(folder: &Path) -> Result<String, Error> {
    let mut text = format!(
        "[[port]]\nname = \"left\"\ninterface = \"left\"\n\
         [[port]]\nname = \"wan\"\ninterface = \"tap0\"\n\
         [ipsec]\nstate = \"{}\"\n",
        folder.join("state").display()
    );
    for (number, kind) in KINDS.iter().enumerate() {
        let [local, remote] = kind.ends();
        let _ = write!(
            text,
            "[[ipsec_tunnel]]\nname = \"t{number}\"\nlocal = \"{local}\"\nremote = \"{remote}\"\n\
             algorithm = \"{}\"\nextended_sequence = {}\nudp_encapsulation = {}\n",
            kind.algorithm, kind.extended, kind.udp
        );
        for (direction, to_guest) in [("in", false), ("out", true)] {
            let path = folder.join(format!("{number}-{direction}.key"));
            fs::write(&path, key(number, to_guest, kind.key_lengths()))
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)))
                .map_err(|e| Error::io(format!("writing {}", path.display()), e))?;
            let _ = write!(
                text,
                "spi_{direction} = {}\nkey_{direction}_file = \"{}\"\n",
                spi(number, to_guest),
                path.display()
            );
        }
        let far = [format!("10.2.{number}.0/24"), format!("2001:db8:2:{number}::/64")];
        for (own, far) in ["10.1.0.0/24", "2001:db8:1::/64"].iter().zip(far) {
            let _ = write!(
                text,
                "[[ipsec_policy]]\nsource = \"{own}\"\ndestination = \"{far}\"\n\
                 tunnel = \"t{number}\"\n"
            );
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_fit() {
        let mut all = std::collections::HashSet::new();
        for (number, kind) in KINDS.iter().enumerate() {
            for to_guest in [true, false] {
                let key = key(number, to_guest, kind.key_lengths());
                let (cipher, integrity) = kind.key_lengths();
                assert_eq!(key.len(), 2 * (cipher + integrity));
                assert!(all.insert(key), "{number}");
            }
        }
    }
}
