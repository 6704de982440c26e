//! Compiles the shim over DPDK's inline functions, where the feature `dpdk` asks for it.

#[cfg(feature = "dpdk")]
fn main() {
    println!("cargo:rerun-if-changed=src/dpdk/shim.c");
    let dpdk = match pkg_config::Config::new().atleast_version("22.11").probe("libdpdk") {
        Ok(dpdk) => dpdk,
        Err(error) => {
            eprintln!(
                "the feature dpdk needs libdpdk 22.11 or later and pkg-config (Debian: \
                 `apt install libdpdk-dev pkg-config`); build without the feature otherwise\n{error}"
            );
            std::process::exit(1);
        }
    };
    let mut shim = cc::Build::new();
    shim.file("src/dpdk/shim.c").includes(&dpdk.include_paths);
    // The inline functions need the configuration and the instruction set that the library was built
    // for, which pkg-config hands on as flags that its crate does not know.
    shim.flag("-include").flag("rte_config.h");
    let output = std::process::Command::new("pkg-config").args(["--cflags", "libdpdk"]).output();
    let flags = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    for flag in flags.unwrap_or_default().split_whitespace().filter(|it| it.starts_with("-m")) {
        shim.flag(flag);
    }
    shim.compile("wattline_dpdk_shim");
}

#[cfg(not(feature = "dpdk"))]
fn main() {}
