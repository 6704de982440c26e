//! A veth pair between two namespaces, and iperf3 over it.

use crate::forward::threads::Thread;
use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wattline_linux::namespace::interface_index;
use wattline_testbed::Error;
use wattline_testbed::command::{self, LIMIT};
use wattline_testbed::namespace::Namespace;
use wattline_xdp::PassAll;

const NEAR: &str = "10.77.0.1";
const FAR: &str = "10.77.0.2";
const PORT: &str = "5201";
/// Longer than any measurement; the programs are killed at its end.
const LONGEST_SECONDS: &str = "3600";
/// Longest time until the server listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// Two namespaces joined by a veth pair. Each end has its own receiving thread.
pub(super) struct Link {
    near: Namespace,
    far: Namespace,
    near_name: String,
    far_name: String,
    _take: Vec<PassAll>,
}

/// Traffic of the sender's interface during the sampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sent {
    pub packets: f64,
    pub bytes: f64,
    pub seconds: f64,
}

impl Sent {
    /// Parses the output of [`Link::sent_around`]: time, packets and bytes, before and after.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<f64> =
            text.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [began, packets_before, bytes_before, ended, packets, bytes] = numbers[..] else {
            return None;
        };
        let sent = Self {
            packets: packets - packets_before,
            bytes: bytes - bytes_before,
            seconds: ended - began,
        };
        (sent.seconds > 0.0).then_some(sent)
    }
}

impl Link {
    pub fn build(offloads: bool) -> Result<Self, Error> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed) % 100;
        let name = |end: char| format!("{end}{serial}p{}", std::process::id());
        let (near, far) = (Namespace::create("sender")?, Namespace::create("receiver")?);
        let (near_name, far_name) = (name('x'), name('y'));
        near.ip(&format!(
            "link add {near_name} type veth peer name {far_name} netns {}",
            far.name()
        ))?;
        let switch = if offloads { "on" } else { "off" };
        let mut take = Vec::new();
        for (namespace, interface, address) in [(&near, &near_name, NEAR), (&far, &far_name, FAR)] {
            let all = ["-K", interface, "tso", switch, "gso", switch, "gro", switch, "tx", switch];
            namespace.run("ethtool", &all, LIMIT)?;
            namespace.ip(&format!(
                "address add {address}/24 dev {interface}\nlink set {interface} up"
            ))?;
            if !offloads {
                // Without GRO, a veth interface has a receiving thread only with an XDP program.
                take.push(namespace.enter(|| {
                    PassAll::attach(interface_index(interface)?).map_err(|error| {
                        let error = std::io::Error::other(error.to_string());
                        Error::io(format!("making {interface} receive by NAPI"), error)
                    })
                })??);
            }
            let thread = format!("echo 1 > /sys/class/net/{interface}/threaded");
            namespace.run("sh", &["-c", &thread], LIMIT)?;
        }
        Ok(Self { near, far, near_name, far_name, _take: take })
    }

    /// Returns a command that waits for `duration` and prints the sender's counters before and
    /// after. It runs as a child of `perf record`, which may take seconds to start, so that only
    /// packets of the sampled time are counted.
    pub fn sent_around(&self, duration: Duration) -> [String; 7] {
        let of = format!("/sys/class/net/{}/statistics", self.near_name);
        // Time since boot, which does not jump; resolution 10 ms.
        let read = format!("cut -d' ' -f1 /proc/uptime; cat {of}/tx_packets {of}/tx_bytes");
        let script = format!("{read}; sleep {}; {read}", duration.as_secs_f64());
        ["ip", "netns", "exec", self.near.name(), "sh", "-c", &script].map(str::to_owned)
    }

    /// Starts iperf3 on both sides.
    pub fn start(&self, connections: u32, io_bytes: u32) -> Result<Programs, Error> {
        let mut server = self.far.command("iperf3");
        server.args(["-s", "-1", "-B", FAR, "-p", PORT]);
        let server = quiet(&mut server)?;
        let deadline = Instant::now() + PATIENCE;
        let listening = ["-ltn", "-H", &format!("sport = :{PORT}")].map(str::to_owned);
        let listening: Vec<&str> = listening.iter().map(String::as_str).collect();
        while self.far.run("ss", &listening, LIMIT)?.trim().is_empty() {
            if Instant::now() > deadline {
                return Err(Error::ProgramHangs {
                    command: "iperf3 -s".into(),
                    seconds: PATIENCE.as_secs(),
                });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut client = self.near.command("iperf3");
        client.args(["-c", FAR, "-p", PORT, "-P", &connections.to_string()]);
        client.args(["-l", &io_bytes.to_string(), "-t", LONGEST_SECONDS]);
        Ok(Programs { client: quiet(&mut client)?, server })
    }
}

fn quiet(program: &mut std::process::Command) -> Result<Child, Error> {
    let program = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command::spawn(program)
}

/// Both programs; killed when dropped.
pub(super) struct Programs {
    client: Child,
    server: Child,
}

impl Programs {
    /// Fails unless both are still running.
    pub fn check(&mut self) -> Result<(), Error> {
        for (child, name) in [(&mut self.client, "client"), (&mut self.server, "server")] {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(Error::ProgramFailed {
                    command: format!("iperf3 ({name})"),
                    status: status.to_string(),
                    output: "ended before the measurement was over".into(),
                });
            }
        }
        Ok(())
    }

    /// Returns the ids of the sender's process and of the thread that receives acknowledgements.
    pub fn sending(&self, link: &Link) -> Result<BTreeSet<u32>, Error> {
        Ok(BTreeSet::from([self.client.id(), Thread::napi(&link.near_name)?.number()]))
    }

    /// Returns the ids of the receiver's process and of the thread that receives the data.
    pub fn receiving(&self, link: &Link) -> Result<BTreeSet<u32>, Error> {
        Ok(BTreeSet::from([self.server.id(), Thread::napi(&link.far_name)?.number()]))
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for child in [&mut self.client, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_counts_are_differences() {
        let sent = Sent::parse("100.5\n10\n1000\n102.5\n30\n4000\n").unwrap();
        assert_eq!(sent, Sent { packets: 20.0, bytes: 3_000.0, seconds: 2.0 });
        for wrong in ["", "1 2 3", "1 2 3 1 2 3", "9 2 3 1 2 3", "a b c d e f"] {
            assert_eq!(Sent::parse(wrong), None, "{wrong}");
        }
    }
}
