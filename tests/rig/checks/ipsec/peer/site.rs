//! Namespaces outside: a router, and a host behind it that talks to the guest.

use super::super::pinged;
use super::LIMIT;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::{Error, command};

/// Time for the next bytes of a stream.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of a stream, in each direction.
const STREAM: usize = 60_000;
/// Port at which the guest sends back the bytes that it gets.
pub const ECHO: u16 = 9;
/// Requests of each length: one, because after a first answer ping waits for two round trips
/// only, which on a busy machine differ.
pub const REQUESTS: u64 = 1;

/// Both of them.
pub struct Site {
    pub router: Namespace,
    source: Namespace,
}

impl Site {
    pub fn build() -> Result<Self, Error> {
        let site =
            Self { router: Namespace::create("router")?, source: Namespace::create("source")? };
        let source = site.source.name();
        site.router.ip(&format!("link add left type veth peer name lan netns {source}"))?;
        for (namespace, interface, host) in [(&site.router, "left", 1), (&site.source, "lan", 2)] {
            let off = ["-K", interface, "tx", "off", "rx", "off", "sg", "off", "gro", "off"];
            namespace.run("ethtool", &off, LIMIT)?;
            namespace.ip(&format!(
                "address add 10.1.0.{host}/24 dev {interface}\n\
                 address add 2001:db8:1::{host}/64 dev {interface} nodad\n\
                 link set {interface} up"
            ))?;
        }
        site.source.ip("route add default via 10.1.0.1\nroute add default via 2001:db8:1::1")?;
        site.router.sysctl(&[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")])?;
        Ok(site)
    }

    /// Pings with each length. Returns the numbers of requests and of echoes.
    pub fn ping(&self, address: &str, lengths: &[u16]) -> Result<(u64, u64), Error> {
        let (mut sent, mut received) = (0, 0);
        for length in lengths {
            let mut ping = self.source.command("ping");
            ping.args(["-n", "-q", "-M", "dont", "-W", "20", "-c"]);
            ping.arg(REQUESTS.to_string()).args(["-s", &length.to_string(), address]);
            let output = command::run_to_end(&mut ping, LIMIT, "")?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let (all, back, twice) = pinged(&text).unwrap_or_default();
            (sent, received) = (sent + all, received + back + twice);
        }
        Ok((sent, received))
    }

    /// Returns true if a stream that the guest echoes arrives byte for byte.
    pub fn echo(&self, address: IpAddr) -> Result<bool, Error> {
        let sent: Vec<u8> = (0..STREAM as u32)
            .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let received = self.source.enter(|| {
            let mut stream = TcpStream::connect_timeout(&SocketAddr::new(address, ECHO), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let mut writer = stream.try_clone()?;
            let mut received = vec![0; sent.len()];
            std::thread::scope(|scope| {
                let writing = scope.spawn(|| writer.write_all(&sent));
                stream.read_exact(&mut received)?;
                writing.join().unwrap_or(Ok(()))
            })?;
            Ok::<_, std::io::Error>(received)
        })?;
        Ok(received.is_ok_and(|received| received == sent))
    }
}
