//! An emulated machine, which ends when it is dropped.

use super::guest::{CommandResult, Guest};
use super::monitor::Monitor;
use super::{Rig, image, source};
use crate::{Error, command};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wattline_needs::KillOnDrop;

/// Time limit of a boot. A boot took 12 s on an idle host and 45 s under four times its capacity;
/// under twelve times its capacity, 120 s were too short.
const BOOT: Duration = Duration::from_secs(300);
/// Number of attempts, since a boot may hang for good.
const BOOTS: usize = 3;
/// Command line of the guest's kernel. The tick is periodic (`nohz=off highres=off`) because in a
/// boot that hung, a CPU no longer received timer interrupts. `no_timer_check`: the kernel expects
/// its timer to tick within some milliseconds, and Linux 6.1 gave up when a busy host had not run
/// the guest meanwhile.
const KERNEL: &str = "console=ttyS0 quiet panic=-1 nohz=off highres=off no_timer_check";
/// Time limit for the emulator to open its sockets, and to end.
const START: Duration = Duration::from_secs(60);
/// Time in which a crashed emulator ends after its sockets have closed.
const END: Duration = Duration::from_secs(5);
/// Lines of the guest's console that an error quotes.
const CONSOLE_TAIL: usize = 20;
/// I/O ports of the P-state control registers of CPU 0 and CPU 1 (rig/machine.asl).
pub const CONTROL_REGISTERS: [u16; 2] = [0x2ff, 0x2ef];

/// Parts of a machine.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Programs of the host to copy to `/bin` of the guest, with their names there.
    pub programs: Vec<(&'static str, PathBuf)>,
    /// Number of network cards (`eth0`, `eth1`), two at most.
    pub cards: usize,
    /// True if a cable joins the two cards, which then have no [`Machine::wires`].
    pub joined: bool,
    /// True if the guest has iproute2's `ip`, namespaces and veth pairs between them.
    pub namespaces: bool,
    /// True if the guest has namespaces, bonds and VLANs.
    pub bonds: bool,
    /// True if the guest has namespaces, and nftables with address translation and flowtables.
    pub nat: bool,
    /// True if the guest has namespaces, the kernel's ESP and strongSwan.
    pub ipsec: bool,
    /// True if the guest has memcached, as a server of requests.
    pub memcached: bool,
    /// True if the guest has TuneD ([`Rig::tuned`]) at `/tuned`.
    pub tuned: bool,
    /// Time after which the guest switches itself off; a quarter of an hour by default.
    pub limit: Option<Duration>,
    /// Network namespace in which each card is connected to a new tap (`tap0`, `tap1`). Without it,
    /// the cards are connected to [`Machine::wires`]. Needs root.
    pub taps: Option<String>,
    /// True for a single processor whose clock counts instructions: each takes 8 ns, however busy
    /// the host is.
    pub counts_instructions: bool,
}

/// A running machine.
#[derive(Debug)]
pub struct Machine {
    emulator: Emulator,
    monitor: Monitor,
    guest: Guest,
    /// Far end of each card's cable; a datagram is a frame.
    pub wires: Vec<UnixDatagram>,
    /// The emulator's name of the card's model.
    pub card: &'static str,
    /// Time from the start until the guest accepted commands.
    pub boot: Duration,
    /// Address of each card's registers, filled in when they are first read.
    bases: BTreeMap<String, u64>,
    folder: TempDir,
}

impl Machine {
    /// Boots a machine and waits until it accepts commands. The boot is repeated if the guest stays
    /// silent, if its clock runs wrong ([`Guest::keeps_time`]), or if the emulator crashed: with a
    /// thread for each CPU, QEMU's assertion in `iotlb_to_section` fails occasionally while the
    /// guest lays out the memory of its devices.
    ///
    /// # Errors
    /// Fails when a part is missing or the guest does not start, with the last lines of its
    /// console.
    pub fn boot(rig: &Rig, options: &Options) -> Result<Self, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let started = Instant::now();
            let mut machine = Self::start(rig, options)?;
            let keeps_time = |machine: &mut Self| match options.counts_instructions {
                true => Ok(()),
                false => machine.guest.keeps_time(),
            };
            match machine.guest.run("true", BOOT).and_then(|_| keeps_time(&mut machine)) {
                Ok(()) => {
                    machine.boot = started.elapsed();
                    machine.connect_wires()?;
                    return Ok(machine);
                }
                Err(error)
                    if tries < BOOTS
                        && (matches!(error, Error::ProgramHangs { .. } | Error::Rig { .. })
                            || machine.emulator.has_crashed()) =>
                {
                    let error = machine.with_console(error);
                    eprintln!("the guest did not come up, it is started again: {error}");
                }
                Err(error) => return Err(machine.with_console(error)),
            }
        }
    }

    /// Starts a machine; the guest is still booting when this returns.
    fn start(rig: &Rig, options: &Options) -> Result<Self, Error> {
        let folder = scratch()?;
        let at = |name: &str| folder.path().join(name);
        let card = card(rig)?;
        let mut qemu = emulator(rig, options, folder.path())?;
        qemu.arg("-append").arg(kernel_options(options));
        qemu.arg("-serial").arg(format!("file:{}", at("console").display()));
        for _ in 1..4 {
            qemu.args(["-serial", "null"]);
        }
        qemu.arg("-qmp").arg(format!("unix:{},server=on,wait=off", at("monitor").display()));
        qemu.args(["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=commands"]);
        let commands = at("commands");
        // QEMU delays the boot until we are connected: a port without a far end reads as closed.
        qemu.arg("-chardev")
            .arg(format!("socket,id=commands,path={},server=on", commands.display()));
        let mut wires = Vec::new();
        for number in 0..options.cards {
            // The virtual functions of an igb take separate slots, 16 above its own.
            let slot = 4 + 4 * number;
            qemu.arg("-device").arg(format!(
                "{card},netdev=wire{number},romfile=,addr={slot:#x},mac=02:00:00:00:00:{:02x}",
                number + 1
            ));
            if options.joined {
                qemu.arg("-netdev").arg(format!("hubport,id=wire{number},hubid=0"));
                continue;
            }
            if options.taps.is_some() {
                qemu.arg("-netdev").arg(format!(
                    "tap,id=wire{number},ifname=tap{number},script=no,downscript=no,vnet_hdr=off"
                ));
                continue;
            }
            let (near, far) = (at(&format!("card{number}")), at(&format!("wire{number}")));
            let wire = UnixDatagram::bind(&far).map_err(|e| Error::io("opening a socket", e))?;
            wires.push(wire);
            qemu.arg("-netdev").arg(format!(
                "dgram,id=wire{number},local.type=unix,local.path={},remote.type=unix,remote.path={}",
                near.display(),
                far.display()
            ));
        }
        let log = |name: &str| {
            fs::File::create(at(name)).map_err(|e| Error::io(format!("making {name}"), e))
        };
        qemu.stdin(Stdio::null()).stdout(log("output")?).stderr(log("errors")?);
        let mut emulator = Emulator(KillOnDrop(command::spawn(&mut qemu)?));
        let with_output = |error| with_output(folder.path(), &error);
        let guest = connect(&commands, &mut emulator).map_err(with_output)?;
        let monitor = connect(&at("monitor"), &mut emulator).map_err(with_output)?;
        let monitor = Monitor::open(monitor).map_err(with_output)?;
        let (guest, boot, bases) = (Guest::new(guest), Duration::ZERO, BTreeMap::new());
        Ok(Self { emulator, monitor, guest, wires, card, boot, bases, folder })
    }

    /// Connects the far ends of the cables to the cards.
    fn connect_wires(&self) -> Result<(), Error> {
        for (number, wire) in self.wires.iter().enumerate() {
            wire.connect(self.folder.path().join(format!("card{number}")))
                .and_then(|()| wire.set_nonblocking(true))
                .map_err(|e| Error::io("connecting a wire", e))?;
        }
        Ok(())
    }

    /// Runs a line of shell in the guest and returns its output.
    ///
    /// # Errors
    /// Fails as [`Guest::run`], with the last lines of the console if the guest is silent.
    pub fn run(&mut self, line: &str, limit: Duration) -> Result<String, Error> {
        let result = self.guest.run(line, limit);
        result.map_err(|error| self.with_console(error))
    }

    /// Runs a line of shell in the guest whose failure is a valid result.
    ///
    /// # Errors
    /// Fails as [`Guest::attempt`], with the last lines of the console.
    pub fn attempt(&mut self, line: &str, limit: Duration) -> Result<CommandResult, Error> {
        let result = self.guest.attempt(line, limit);
        result.map_err(|error| self.with_console(error))
    }

    /// Reads the P-state control registers from outside: ten times each CPU's frequency in GHz.
    ///
    /// # Errors
    /// Fails when the emulator does not answer.
    pub fn registers(&mut self) -> Result<[u8; 2], Error> {
        let [first, second] = CONTROL_REGISTERS;
        Ok([self.monitor.port(first)?, self.monitor.port(second)?])
    }

    /// Suspends the guest to memory (S3), wakes it after `time`, and waits until it accepts
    /// commands again.
    ///
    /// # Errors
    /// Fails when the guest does not suspend, with its kernel's messages, or does not wake.
    pub fn suspend(&mut self, time: Duration) -> Result<(), Error> {
        let line = "(sleep 1; echo mem > /sys/power/state) > /tmp/suspend 2>&1 & true";
        self.run(line, START)?;
        let deadline = Instant::now() + START;
        while self.monitor.status()? != "suspended" {
            if Instant::now() >= deadline {
                let said = self.run("cat /tmp/suspend; dmesg | tail -n 20", START)?;
                let what = format!("the guest does not suspend: {said}");
                return Err(Error::Rig { what, console: String::new() });
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        std::thread::sleep(time);
        self.monitor.wake()?;
        self.run("true", BOOT).map(drop)
    }

    /// Powers the guest off.
    ///
    /// # Errors
    /// Fails when the emulator does not end, or ends with an error; it is then killed.
    pub fn power_off(mut self) -> Result<(), Error> {
        // The answer may be lost.
        let _ = self.guest.attempt("sync; poweroff -f", Duration::from_secs(5));
        let status = command::wait(&mut self.emulator.0, START)
            .map_err(|e| Error::io("waiting for the emulator", e))?;
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.with_console(Error::ProgramFailed {
                command: "the emulator".to_owned(),
                status: status.to_string(),
                output: String::new(),
            })),
            None => Err(self.with_console(Error::ProgramHangs {
                command: "the emulator".to_owned(),
                seconds: START.as_secs(),
            })),
        }
    }

    /// Reads registers of a network card from outside: `count` words from `offset` on.
    ///
    /// # Errors
    /// Fails when the guest has no such card, or the emulator does not answer.
    pub fn card_registers(
        &mut self,
        interface: &str,
        offset: u64,
        count: usize,
    ) -> Result<Vec<u32>, Error> {
        if let Some(base) = self.bases.get(interface) {
            return self.monitor.words(base + offset, count);
        }
        let line = format!("head -n 1 /sys/class/net/{interface}/device/resource");
        let resource = self.run(&line, START)?;
        let base = resource.split_whitespace().next().and_then(|word| word.strip_prefix("0x"));
        let base = base.and_then(|word| u64::from_str_radix(word, 16).ok()).ok_or_else(|| {
            let what = format!("{interface} has no registers: {resource:?}");
            Error::Rig { what, console: String::new() }
        })?;
        self.bases.insert(interface.to_owned(), base);
        self.monitor.words(base + offset, count)
    }

    fn with_console(&self, error: Error) -> Error {
        // A command that reported its failure needs no console.
        if matches!(error, Error::ProgramFailed { ref output, .. } if !output.is_empty()) {
            return error;
        }
        with_output(self.folder.path(), &error)
    }
}

/// An emulator that ends with its owner.
#[derive(Debug)]
struct Emulator(KillOnDrop);

impl Emulator {
    /// Returns true if a signal ended the emulator, as a failed assertion does; waits a moment for
    /// its end.
    fn has_crashed(&mut self) -> bool {
        let status = command::wait(&mut self.0, END);
        status.is_ok_and(|status| status.is_some_and(|status| status.signal().is_some()))
    }
}

/// Boots a machine whose console is this terminal, until its shell ends.
///
/// # Errors
/// Fails when a part is missing, or the emulator fails.
pub fn shell(rig: &Rig, options: &Options) -> Result<(), Error> {
    let folder = scratch()?;
    let mut qemu = emulator(rig, options, folder.path())?;
    let append = format!("{} rig.shell", kernel_options(options));
    qemu.arg("-append").arg(append).args(["-serial", "mon:stdio"]);
    for _ in 1..4 {
        qemu.args(["-serial", "null"]);
    }
    qemu.arg("-netdev")
        .arg("user,id=wire0")
        .arg("-device")
        .arg(format!("{},netdev=wire0,romfile=,addr=0x4", card(rig)?));
    let status = command::spawn(&mut qemu)?.wait();
    let status = status.map_err(|e| Error::io("waiting for the emulator", e))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::ProgramFailed {
        command: "the emulator".to_owned(),
        status: status.to_string(),
        output: String::new(),
    })
}

/// Returns options for the first process (`rig/init`): the kernel passes unknown options on as
/// environment variables.
fn kernel_options(options: &Options) -> String {
    let limit = options.limit.map(|limit| format!(" rig_seconds={}", limit.as_secs()));
    format!("{KERNEL}{}", limit.unwrap_or_default())
}

/// Creates a folder for a machine, which is removed with it; folders of killed processes are
/// removed here.
fn scratch() -> Result<TempDir, Error> {
    const PREFIX: &str = "wattline-rig-";
    let failed = |e| Error::io("making a folder", e);
    let folder = std::env::temp_dir();
    for entry in fs::read_dir(&folder).map_err(failed)?.filter_map(Result::ok) {
        let name = entry.file_name().into_string().unwrap_or_default();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if owner
            .and_then(|pid| pid.parse::<u32>().ok())
            .is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
        {
            // Another process may be removing it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(folder).map_err(failed)
}

/// Returns the emulator's command with the guest, but without serial ports and cards.
fn emulator(rig: &Rig, options: &Options, folder: &Path) -> Result<Command, Error> {
    let programs: Vec<(&str, &Path)> =
        options.programs.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let image = folder.join("initramfs");
    let Options { namespaces, bonds, nat, ipsec, memcached, tuned, .. } = *options;
    let contents =
        image::Contents { programs: &programs, namespaces, bonds, nat, ipsec, memcached, tuned };
    image::pack(rig, contents, &image)?;
    let table = folder.join("machine");
    let mut iasl = rig.command("iasl");
    iasl.arg("-p").arg(&table).arg(source().join("rig/machine.asl"));
    command::run(&mut iasl, START)?;
    // Ends with this process, even if that is killed.
    let mut qemu = Command::new(if options.taps.is_some() { "ip" } else { "setpriv" });
    if let Some(namespace) = &options.taps {
        qemu.args(["netns", "exec", namespace, "setpriv"]);
    }
    qemu.args(["--pdeathsig", "KILL"]).arg(rig.program("qemu-system-x86_64"));
    rig.set_environment(&mut qemu);
    for firmware in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
        qemu.arg("-L").arg(rig.root.join(firmware));
    }
    // A CPU model as old as the P-states of its table; acpi-cpufreq refuses the emulator's default.
    match options.counts_instructions {
        true => qemu.args(["-accel", "tcg,thread=single", "-icount", "shift=3", "-smp", "1"]),
        false => qemu.args(["-accel", "tcg,thread=multi", "-smp", "2"]),
    };
    qemu.args(["-cpu", "Nehalem", "-m", "1024"]);
    qemu.args(["-display", "none", "-no-reboot", "-nodefaults", "-no-user-config"]);
    qemu.arg("-acpitable").arg(format!("file={}", table.with_extension("aml").display()));
    qemu.args(["-device", "ipmi-bmc-sim,id=bmc", "-device", "isa-ipmi-kcs,bmc=bmc"]);
    qemu.arg("-kernel").arg(rig.kernel()).arg("-initrd").arg(image);
    Ok(qemu)
}

/// Returns the best card of the emulator: `igb`, with queues and an indirection table, since QEMU
/// 8.
fn card(rig: &Rig) -> Result<&'static str, Error> {
    let devices = command::run(rig.command("qemu-system-x86_64").args(["-device", "help"]), START)?;
    Ok(if devices.contains("\"igb\"") { "igb" } else { "e1000e" })
}

/// Connects to a socket that the emulator opens.
fn connect(path: &Path, emulator: &mut Emulator) -> Result<UnixStream, Error> {
    let deadline = Instant::now() + START;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let kind = error.kind();
                let early = matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused);
                let gone = !matches!(emulator.0.try_wait(), Ok(None));
                if !early || gone || Instant::now() >= deadline {
                    return Err(Error::io("connecting to the emulator", error));
                }
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Adds the last output of emulator and guest to an error of the machine in `folder`.
fn with_output(folder: &Path, error: &Error) -> Error {
    let words = fs::read_to_string(folder.join("errors")).unwrap_or_default();
    let console = last_lines(&folder.join("console"));
    Error::Rig { what: format!("{error}\n{words}").trim().to_owned(), console }
}

fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(CONSOLE_TAIL);
    lines[from..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a mount namespace with another build's modules, as of an installed emulator.
    #[test]
    fn emulator_loads_no_modules_of_another_build() {
        let Some(rig) = Rig::find() else {
            return wattline_needs::tool("the virtual hardware lab is not fetched (rig/fetch)");
        };
        let folder = tempfile::tempdir().unwrap();
        for name in ["upper/qemu", "work"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for module in ["accel-qtest-x86_64", "hw-display-qxl", "ui-opengl", "hw-usb-host"] {
            let planted = folder.path().join(format!("upper/qemu/{module}.so"));
            fs::write(planted, "a module of another build").unwrap();
        }
        let script = "mount -t tmpfs tmpfs \"$1/work\" && mkdir \"$1/work/upper\" \"$1/work/work\" \
            && cp -r \"$1/upper/qemu\" \"$1/work/upper\" && mount -t overlay overlay \
            -o \"lowerdir=/usr/lib/x86_64-linux-gnu,upperdir=$1/work/upper,workdir=$1/work/work\" \
            /usr/lib/x86_64-linux-gnu || exit 77; shift; exec \"$@\"";
        let mut qemu = Command::new("unshare");
        qemu.args(["-m", "sh", "-c", script, "sh"]).arg(folder.path());
        qemu.arg(rig.program("qemu-system-x86_64")).args(["-device", "help"]);
        rig.set_environment(&mut qemu);
        let output = qemu.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(77) || errors.contains("unshare failed") {
            return wattline_needs::machine(format_args!("no overlay can be mounted: {errors}"));
        }
        assert!(output.status.success() && errors.is_empty(), "{}: {errors}", output.status);
    }

    #[test]
    fn only_an_emulator_ended_by_a_signal_has_crashed() {
        for (script, crashed) in [("kill -ABRT $$", true), ("exit 1", false), ("exit 0", false)] {
            let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            assert_eq!(Emulator(KillOnDrop(child)).has_crashed(), crashed, "{script}");
        }
    }
}
