//! What the CPUs did, from `/proc/stat` and `/proc/net/softnet_stat`
//! (Documentation/filesystems/proc.rst; net/core/net-procfs.c, `softnet_seq_show`).

use crate::workers::Work;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use wattline_linux::sysfs::Tree;
use wattline_units::Span;

/// Of a tick in `/proc/stat`: `USER_HZ` is 100 on every architecture that Wattline runs on.
const TICK: Span = Span::from_millis(10);
/// The column of `softnet_stat` with the CPU's number, since Linux 5.10; lines of older kernels
/// stand in the order of the CPUs that are on line.
const CPU_COLUMN: usize = 12;

/// Counters of some CPUs since the first look.
pub(super) struct Cpus {
    stat: Text,
    softnet: Text,
    /// By core: its CPU, the last counters, and what they add up to.
    cores: Vec<Core>,
}

#[derive(Default)]
struct Core {
    cpu: u32,
    busy_ticks: Option<u64>,
    packets: Option<u32>,
    work: Work,
}

impl Cpus {
    pub fn new(tree: &Tree, cpus: &[u32]) -> Self {
        let cores = cpus.iter().map(|&cpu| Core { cpu, ..Core::default() });
        let mut new = Self {
            stat: Text::new(tree, "/proc/stat"),
            softnet: Text::new(tree, "/proc/net/softnet_stat"),
            cores: cores.collect(),
        };
        new.look();
        new
    }

    pub fn work(&self, core: usize) -> Work {
        self.cores.get(core).map(|core| core.work).unwrap_or_default()
    }

    /// Adds what happened since the last look.
    pub fn look(&mut self) {
        let cores = &mut self.cores;
        for line in self.stat.read().lines() {
            let Some(rest) = line.strip_prefix("cpu") else { break };
            let mut words = rest.split_ascii_whitespace();
            // The sum of all has no number.
            let named = !rest.starts_with(' ');
            let Some(cpu) = words.next().and_then(|word| word.parse().ok()).filter(|_| named)
            else {
                continue;
            };
            let Some(core) = core_of(cores, cpu) else { continue };
            // user nice system idle iowait irq softirq steal; guest time is in user already.
            let mut busy = 0u64;
            for (column, word) in words.take(8).enumerate() {
                if !matches!(column, 3 | 4) {
                    busy = busy.saturating_add(word.parse().unwrap_or(0));
                }
            }
            // A CPU that comes back on line may count from zero again.
            let ticks = core.busy_ticks.map_or(0, |last| busy.saturating_sub(last));
            core.busy_ticks = Some(busy);
            core.work.useful += TICK * ticks;
        }
        for (line, text) in self.softnet.read().lines().enumerate() {
            let mut words = text.split_ascii_whitespace();
            let Some(packets) = words.next().and_then(|word| u32::from_str_radix(word, 16).ok())
            else {
                continue;
            };
            let number = words.nth(CPU_COLUMN - 1);
            let number = number.and_then(|word| u32::from_str_radix(word, 16).ok());
            let Some(core) = core_of(cores, number.unwrap_or(line as u32)) else { continue };
            let new = core.packets.map_or(0, |last| packets.wrapping_sub(last));
            core.packets = Some(packets);
            core.work.packets += u64::from(new);
        }
    }
}

fn core_of(cores: &mut [Core], cpu: u32) -> Option<&mut Core> {
    // On most machines core n is CPU n.
    let straight = cores.get(cpu as usize).is_some_and(|core| core.cpu == cpu);
    if straight {
        return cores.get_mut(cpu as usize);
    }
    cores.iter_mut().find(|core| core.cpu == cpu)
}

/// A file of the kernel that is read again and again, without being opened or allocating anew.
struct Text {
    path: PathBuf,
    /// Stays open on the running machine; the file of a recording may be another one each time.
    file: Option<File>,
    live: bool,
    buffer: Vec<u8>,
}

impl Text {
    fn new(tree: &Tree, path: &str) -> Self {
        let path = tree.path(path);
        Self { path, file: None, live: tree.is_live(), buffer: vec![0; 4096] }
    }

    /// What it holds now; nothing where it cannot be read.
    fn read(&mut self) -> &str {
        /// Of more than a thousand CPUs.
        const MOST: usize = 4 << 20;
        if self.file.is_none() || !self.live {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &self.file else { return "" };
        let mut length = 0;
        loop {
            match file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return "",
            }
            if length == self.buffer.len() {
                if length >= MOST {
                    break;
                }
                self.buffer.resize(2 * length, 0);
            }
        }
        std::str::from_utf8(&self.buffer[..length]).unwrap_or_default()
    }
}
