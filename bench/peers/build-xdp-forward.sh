#!/bin/sh
# Builds xdp-forward of xdp-tools, a peer of `wattline bench forward`, from its own source:
#   bench/peers/build-xdp-forward.sh XDP_TOOLS_SOURCE OUTPUT
# XDP_TOOLS_SOURCE is an unpacked source of xdp-tools 1.5 or later. Debian 12 packages 1.3, which has no
# xdp-forward. libbpf-dev, libelf-dev, libpcap-dev, bpftool, m4, clang-16 and llvm-16 have to be installed.
# Nothing of xdp-tools is part of this project.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 XDP_TOOLS_SOURCE OUTPUT" >&2; exit 2; }
[ -f "$1/xdp-forward/xdp-forward.c" ] ||
    { echo "$1/xdp-forward does not exist: xdp-tools 1.5 or later is needed" >&2; exit 66; }
PATH=$PATH:/usr/sbin
for tool in bpftool m4 clang-16 llc-16 llvm-strip-16; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed" >&2; exit 69; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$1/." "$work/"
# The source is in C23, which compilers of the distribution may not know.
export CC=clang-16 CLANG=clang-16 LLC=llc-16 LLVM_STRIP=llvm-strip-16
export FORCE_SYSTEM_LIBBPF=1 PRODUCTION=1 ARCH_INCLUDES="-I/usr/include/$(cc -print-multiarch)"
(cd "$work" && ./configure && make -C lib libxdp && make -C xdp-forward xdp-forward) >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
cp "$work/xdp-forward/xdp-forward" "$2"
