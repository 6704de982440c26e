#!/bin/sh
# Builds a harness around planb-lpm, a peer of `wattline bench fib --peer`, from its own source:
#   bench/peers/build-planb.sh PLANB_LPM_SOURCE OUTPUT
# PLANB_LPM_SOURCE is an unpacked source of planb-lpm (https://github.com/esutcu/planb-lpm). Nothing of it is part of
# this project.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 PLANB_LPM_SOURCE OUTPUT" >&2; exit 2; }
[ -f "$1/include/lpm6.hpp" ] || { echo "$1/include/lpm6.hpp does not exist" >&2; exit 66; }
c++ -std=c++17 -O3 -march=native -Wall -Wextra -I"$1/include" -o "$2" "$(dirname "$0")/planb_fib.cc"
