# shellcheck shell=bash
# What rig/fetch and rig/fetch-kernel have in common: Debian packages by private lists, so that
# apt's own stay as they are. Sourced in the project's folder.
rig=${WATTLINE_RIG:-${CARGO_TARGET_DIR:-target}/rig}
mirror=${WATTLINE_DEBIAN_MIRROR:-}

# Ends with 69, saying what is missing.
unavailable() {
    echo "The virtual hardware lab cannot be fetched: $1" >&2
    echo "It needs: a Debian 12 or later on x86-64 (apt-get, dpkg), and its Debian mirror within reach (about 125 MB)." >&2
    exit 69
}

# Sets `release`, `mirror`; ends where this is no machine of that kind.
find_mirror() {
    local program
    for program in apt-get apt-cache dpkg; do
        command -v "$program" >/dev/null || unavailable "there is no $program here."
    done
    [ "$(dpkg --print-architecture)" = amd64 ] || unavailable "this is no x86-64 machine."
    # shellcheck disable=SC1091
    release=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || unavailable "this is no Debian."
    [ -n "$mirror" ] || mirror=$(configured)
    # apt names only those of which it has lists.
    [ -n "$mirror" ] || { apt-get update -q >/dev/null 2>&1 || true; mirror=$(configured); }
    [ -n "$mirror" ] || unavailable "apt knows no mirror of $release (WATTLINE_DEBIAN_MIRROR names one)."
}

# The mirror that this machine uses, which has the backports and other releases too.
configured() {
    apt-get indextargets --format '$(CREATED_BY) $(RELEASE) $(REPO_URI)' 2>/dev/null |
        awk -v release="$release" '$1 == "Packages" && $2 == release && !mirror { mirror = $3 } END { print mirror }'
}

# Reads the lists of suites ($2) into a folder ($1); sets `apt`, the options that use them.
read_lists() {
    mkdir -p "$1/lists/partial" "$1/archives/partial"
    cat >"$1/debian.sources" <<EOF
Types: deb
URIs: $mirror
Suites: $2
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
    apt=(-q -o "Dir::Etc::sourcelist=$1/debian.sources" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$1/lists" -o "Dir::Cache=$1"
        -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=2
        -o Acquire::http::Timeout=20 -o APT::Update::Error-Mode=any)
    echo "Reading the package lists of Debian $2 ..."
    apt-get "${apt[@]}" update >"$1/update.log" 2>&1 || unavailable "$(tail -n 3 "$1/update.log")"
}

# Downloads packages ($3 and on) into a folder ($1), and unpacks them into another ($2).
unpack() {
    local packages=$1 root=$2 package folder
    shift 2
    mkdir -p "$packages" "$root"
    (cd "$packages" && apt-get "${apt[@]}" download "$@" >download.log 2>&1) ||
        unavailable "$(tail -n 3 "$packages/download.log")"
    for package in "$packages"/*.deb; do
        dpkg -x "$package" "$root"
    done
    # Newer Debians keep everything below usr.
    for folder in bin lib sbin; do
        [ -e "$root/$folder" ] || ln -s "usr/$folder" "$root/$folder"
    done
}

# Notes which module of a kernel ($2) below a folder ($1) needs which: a list that a package's
# installation would have made.
list_modules() {
    (exec -a depmod "$rig/root/bin/kmod" -b "$1" "$2") || unavailable "depmod failed."
}
