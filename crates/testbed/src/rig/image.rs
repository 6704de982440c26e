//! The guest's file system: an archive that its kernel unpacks into memory.

use super::{Rig, source};
use crate::{Error, command};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit of any step on a busy machine.
const STEP: Duration = Duration::from_secs(120);

/// The lab's drivers, the device through which the router passes packets to its kernel, and the
/// port for commands. Their dependencies are loaded before them.
const MODULES: [&str; 15] = [
    "tun",
    // Round trips of connections; a kernel with modprobe loads it itself.
    "tcp_diag",
    // Part of newer kernels of Debian.
    "virtio_pci",
    "virtio_console",
    "igb",
    "e1000e",
    "cpufreq_userspace",
    "cpufreq_ondemand",
    "cpufreq_conservative",
    "cpufreq_powersave",
    "acpi-cpufreq",
    "acpi_power_meter",
    "ipmi_si",
    "ipmi_devintf",
    "acpi_ipmi",
];

/// Module for cables between namespaces.
const CABLES: &str = "veth";

/// Modules for bonds, and for VLANs on them.
const BOND_MODULES: [&str; 2] = ["bonding", "8021q"];

/// Modules for address translation and flowtables of nftables, and for bridges. The first is the
/// checksum that the others need.
const NAT_MODULES: [&str; 8] = [
    "crc32c_generic",
    "nft_ct",
    "nft_nat",
    "nft_masq",
    "nft_chain_nat",
    "nft_flow_offload",
    "nf_flow_table_inet",
    "bridge",
];

/// Modules that the kernel's ESP needs.
const IPSEC_MODULES: [&str; 16] = [
    "esp4",
    "esp6",
    "xfrm_user",
    "aes_generic",
    "cbc",
    "ctr",
    "gcm",
    "ghash-generic",
    "hmac",
    "sha1_generic",
    "sha256_generic",
    "authenc",
    "authencesn",
    "seqiv",
    "echainiv",
    "xfrm_interface",
];

/// Folder of strongSwan's plugins, and the plugins that IKE with a shared key needs.
const PLUGINS: &str = "usr/lib/ipsec/plugins";
const PLUGIN_NAMES: [&str; 12] = [
    "aes",
    "drbg",
    "gmp",
    "hmac",
    "kdf",
    "kernel-netlink",
    "nonce",
    "random",
    "sha1",
    "sha2",
    "socket-default",
    "vici",
];

/// Contents of a guest in addition to busybox, ethtool and the drivers of its devices.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'a> {
    /// Programs, with their names in `/bin`.
    pub programs: &'a [(&'a str, &'a Path)],
    /// iproute2's `ip`, and cables between namespaces.
    pub namespaces: bool,
    /// Modules for the kernel's bonds and VLANs.
    pub bonds: bool,
    /// Namespaces, and nftables with address translation and flowtables.
    pub nat: bool,
    /// Namespaces, the kernel's ESP and strongSwan.
    pub ipsec: bool,
    /// memcached, as a server of requests.
    pub memcached: bool,
    /// TuneD, in its own root at `/tuned`.
    pub tuned: bool,
}

/// Packs the guest.
///
/// # Errors
/// Fails when a part is missing or cannot be packed.
pub fn pack(rig: &Rig, contents: Contents<'_>, to: &Path) -> Result<(), Error> {
    let Contents { programs, nat, ipsec, memcached, .. } = contents;
    let namespaces = contents.namespaces || contents.bonds || nat || ipsec;
    let staging = tempfile::tempdir().map_err(|e| Error::io("making a folder", e))?;
    let root = staging.path();
    for folder in ["bin", "lib", "lib64", "modules", "proc", "sys", "dev", "tmp", "run", "var/lib"]
    {
        fs::create_dir_all(root.join(folder)).map_err(|e| Error::io("making a folder", e))?;
    }
    copy(&source().join("rig/init"), &root.join("init"))?;
    let busybox = rig.program("busybox");
    copy(&busybox, &root.join("bin/busybox"))?;
    let wanted = [
        ("ethtool", true),
        ("ip", namespaces),
        ("nft", nat),
        ("charon", ipsec),
        ("swanctl", ipsec),
        ("memcached", memcached),
    ];
    let own: Vec<(&str, PathBuf)> = wanted
        .into_iter()
        .filter(|(_, wanted)| *wanted)
        .map(|(name, _)| (name, rig.program(name)))
        .collect();
    let own = own.iter().map(|(name, path)| (*name, path.as_path()));
    for (name, program) in own.chain(programs.iter().copied()) {
        install(rig, program, root, &format!("bin/{name}"))?;
    }
    if ipsec {
        let folder = rig.program("charon").with_file_name("plugins");
        for name in PLUGIN_NAMES.map(|name| format!("libstrongswan-{name}.so")) {
            install(rig, &folder.join(&name), root, &format!("{PLUGINS}/{name}"))?;
        }
    }
    if contents.tuned {
        let from = rig.tuned().unwrap_or_default();
        let to = root.join("tuned");
        command::run(Command::new("cp").arg("-a").args([&from, &to]), STEP)?;
    }
    let mut wanted = MODULES.to_vec();
    wanted.extend(namespaces.then_some(CABLES));
    wanted.extend(BOND_MODULES.into_iter().filter(|_| contents.bonds));
    wanted.extend(NAT_MODULES.into_iter().filter(|_| nat));
    wanted.extend(IPSEC_MODULES.into_iter().filter(|_| ipsec));
    modules(rig, &busybox, &wanted, &root.join("modules"))?;
    let mut cpio = Command::new(&busybox);
    cpio.args(["cpio", "-o", "-H", "newc", "-F"]).arg(to).current_dir(root);
    let packed = command::run_to_end(&mut cpio, STEP, &list(root)?)?;
    if packed.status.success() {
        return Ok(());
    }
    Err(Error::ProgramFailed {
        command: "busybox cpio".to_owned(),
        status: packed.status.to_string(),
        output: String::from_utf8_lossy(&packed.stderr).trim().to_owned(),
    })
}

/// Copies a program and its libraries to their places below `root`.
fn install(rig: &Rig, program: &Path, root: &Path, to: &str) -> Result<(), Error> {
    let inside = root.join(to);
    if let Some(folder) = inside.parent() {
        fs::create_dir_all(folder).map_err(|e| Error::io("making a folder", e))?;
    }
    copy(program, &inside)?;
    // Symbols double the size that the guest has to unpack; failure is harmless.
    let _ = command::run_to_end(Command::new("strip").arg(&inside), STEP, "");
    for library in libraries(rig, program)? {
        let folder = if library.starts_with("/lib64") { "lib64" } else { "lib" };
        let name = library.file_name().unwrap_or_default();
        let inside = root.join(folder).join(name);
        if !inside.exists() {
            copy(&library, &inside)?;
        }
    }
    Ok(())
}

/// Unpacks the modules into `to`, and writes their load order.
fn modules(rig: &Rig, busybox: &Path, wanted: &[&str], to: &Path) -> Result<(), Error> {
    let folder = rig.modules();
    let path = folder.join("modules.dep");
    let text = fs::read_to_string(&path)
        .map_err(|e| Error::io(format!("reading {}", path.display()), e))?;
    let order = load_order(&text, wanted);
    let mut names = String::new();
    for path in order {
        let from = folder.join(path);
        let name = module_name(path);
        let inside = to.join(name);
        if path.ends_with(".xz") {
            let mut unpack = Command::new(busybox);
            unpack.args(["unxz", "-c"]).arg(&from);
            let output = command::run_to_end(&mut unpack, STEP, "")?;
            fs::write(&inside, output.stdout)
                .map_err(|e| Error::io(format!("writing {}", inside.display()), e))?;
        } else {
            copy(&from, &inside)?;
        }
        names.push_str(name);
        names.push('\n');
    }
    fs::write(to.join("order"), names).map_err(|e| Error::io("writing the order of modules", e))
}

/// Returns the paths of `wanted` and their dependencies in load order, from the text of a
/// `modules.dep`: `PATH: NEEDED...`, in reverse load order. Built-in modules are not listed there,
/// and left out here.
fn load_order<'a>(dependencies: &'a str, wanted: &[&str]) -> Vec<&'a str> {
    let lines: HashMap<&str, (&str, &str)> = dependencies
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(path, needs)| {
            (module_name(path).split('.').next().unwrap_or_default(), (path, needs))
        })
        .collect();
    let mut order: Vec<&str> = Vec::new();
    for (path, needs) in wanted.iter().filter_map(|name| lines.get(name)) {
        for one in needs.split_whitespace().rev().chain([*path]) {
            if !order.contains(&one) {
                order.push(one);
            }
        }
    }
    order
}

/// Returns the file's name without the suffix of its compression.
fn module_name(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".xz").unwrap_or(name)
}

/// Returns the shared libraries of a program, including its loader.
fn libraries(rig: &Rig, program: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program).env("LD_LIBRARY_PATH", rig.libraries());
    // Fails for a static program, which needs no libraries.
    let output = command::run_to_end(&mut ldd, STEP, "")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = text.lines().filter_map(|line| {
        let path = line.split("=>").last()?.split_whitespace().next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    Ok(paths.collect())
}

/// Lists all names below a folder, folders before their contents, as cpio requires.
fn list(root: &Path) -> Result<String, Error> {
    command::run(Command::new("find").arg(".").current_dir(root), STEP)
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to)
        .and_then(|_| fs::set_permissions(to, fs::Permissions::from_mode(0o755)))
        .map_err(|e| Error::io(format!("copying {} to {}", from.display(), to.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_loaded_after_their_dependencies() {
        let text = "kernel/a/igb.ko.xz: kernel/b/bit.ko.xz kernel/c/core.ko.xz\n\
                    kernel/b/bit.ko.xz: kernel/c/core.ko.xz\n\
                    kernel/c/core.ko.xz:\nkernel/d/meter.ko: kernel/c/core.ko.xz\n";
        let order = load_order(text, &["igb", "built-in", "meter"]);
        let names: Vec<&str> = order.iter().map(|path| module_name(path)).collect();
        assert_eq!(names, ["core.ko", "bit.ko", "igb.ko", "meter.ko"]);
    }
}
