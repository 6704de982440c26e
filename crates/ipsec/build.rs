//! Compiles the shim over the library's macros, where the feature `ipsec-mb` asks for it.

#[cfg(feature = "ipsec-mb")]
fn main() {
    println!("cargo:rerun-if-changed=src/multibuffer/shim.c");
    let mut shim = cc::Build::new();
    // The first error is enough: without the library all others follow from it.
    shim.file("src/multibuffer/shim.c").warnings(true).extra_warnings(true).flag("-Wfatal-errors");
    // Debian's package has no file for pkg-config, so the compiler is asked.
    if let Err(error) = shim.try_compile("wattline_multibuffer_shim") {
        eprintln!(
            "the feature ipsec-mb needs a C compiler and libipsec-mb 1.3 or later (Debian: \
             `apt install libipsec-mb-dev`); build without the feature otherwise\n{error}"
        );
        std::process::exit(1);
    }
    println!("cargo:rustc-link-lib=IPSec_MB");
}

#[cfg(not(feature = "ipsec-mb"))]
fn main() {}
