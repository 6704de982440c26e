#!/bin/sh
# Builds DPDK's l3fwd example, the peer of `wattline bench forward`, from its own source:
#   bench/peers/build-l3fwd.sh DPDK_SOURCE OUTPUT
# DPDK_SOURCE is an unpacked DPDK source of the installed version (`apt-get source dpdk`);
# libdpdk-dev has to be installed. Nothing of DPDK is part of this project.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 DPDK_SOURCE OUTPUT" >&2; exit 2; }
examples=$1/examples
output=$2
[ -f "$examples/l3fwd/main.c" ] || { echo "$examples/l3fwd/main.c does not exist" >&2; exit 66; }
pkg-config --exists libdpdk || { echo "libdpdk-dev is not installed" >&2; exit 69; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$examples/l3fwd" "$examples/common" "$work/"
cd "$work/l3fwd"
# Virtual devices offer no checksum offload, and l3fwd does not start without.
sed -i 's/\.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM/.offloads = 0/' main.c
# Those that its meson.build lists (some others are included by these).
sources=$(grep -o "'[a-z0-9_]*\.c'" meson.build | tr -d "'")
# shellcheck disable=SC2086,SC2046
cc -O3 -march=native -w -DALLOW_EXPERIMENTAL_API -I. -I../common $(pkg-config --cflags libdpdk) \
    $sources -o l3fwd $(pkg-config --libs libdpdk)
cd - >/dev/null
cp "$work/l3fwd/l3fwd" "$output"
