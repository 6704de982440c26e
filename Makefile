# The two commands of the README are `make demo` and `make test`.
CARGO ?= cargo
SECONDS_OF_LOAD ?= 2
BASE ?= main
# Names no directory of this machine. All targets use it for what is built for release: other flags would build everything anew.
RELEASE = CARGO="$(CARGO)" scripts/cargo-release
# Needs for which no test may be skipped (`tools`, `rights`, `data`, `machine`, `all`): what `make tools` found.
REQUIRE = $${WATTLINE_REQUIRE-$$(cat target/tools/required 2>/dev/null)}
# The same with what tests of packages use, as `make tools-long` found it.
REQUIRE_LONG = $${WATTLINE_REQUIRE-$$(cat target/tools/required-long 2>/dev/null)}

.DEFAULT_GOAL := help
.PHONY: help demo check test test-long lint dependencies tools tools-long build install deb rpm archive container reproducible-test package-test rpm-test container-test units-test boot-test figures python site bpf rig rig-copi rig-shell clean-experiments

help:             ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## a day in miniature under four policies, then Wattline beside the kernel (DEMO="--duration 20s ...")
	@scripts/install-tools demo
	target/release/wattline demo --out target $(DEMO)

build:            ## the release build of `wattline` and `wattline-lab`
	$(RELEASE) build --release -p wattline -p wattline-lab

install:          ## install the release build with manual pages, completions and units (PREFIX=/usr/local DESTDIR=)
	@scripts/install

deb: build        ## the Debian packages, into target/package
	@scripts/build-deb

rpm: build        ## the RPM packages, into target/package
	@scripts/build-rpm

container: deb    ## the container image `wattline` of the Debian package `wattline` (podman; BASE=IMAGE)
	podman build $(if $(BASE),--build-arg BASE=$(BASE)) -f packaging/container/Containerfile -t wattline .

archive:          ## static programs with the same files, into target/package (musl, else glibc)
	@scripts/build-archive

reproducible-test: ## build package and archive twice, in two directories, and compare every byte (four release builds)
	@scripts/test-reproducible

package-test: deb ## install, upgrade and purge the packages in a fresh Debian root
	@scripts/test-package

rpm-test:         ## install, upgrade and erase the RPM packages
	@scripts/test-rpm

container-test:   ## build the container image and run the program in it
	@scripts/test-container

units-test:       ## let systemd run the package's units in a container
	@scripts/test-units

boot-test:        ## boot the package twice as a router with a tunnel, in a container
	@scripts/test-boot

figures: build    ## measure the figures of README and documentation on this machine, and write them there (ROUTES=FILE of a full table, L3FWD=PROGRAM; five quiet minutes)
	$(MAKE) -C bench/peers
	scripts/figures measure target/release/wattline-lab $(ROUTES) $(L3FWD)
	scripts/figures write

python:           ## the Python package as a wheel, and its tests
	@scripts/test-python

site:             ## the documentation as a site, into target/site (needs mdbook)
	@scripts/build-site

check:            ## after a change, in three minutes: formatting, lints, tests of the packages that differ from main and of the quickest that use them (BASE=COMMIT)
	$(CARGO) fmt --all --check
	CARGO="$(CARGO)" scripts/run-tests --changed $(BASE)

test: tools       ## lints, dependency checks and all tests, those with real components too
	$(MAKE) lint dependencies
	WATTLINE_REQUIRE="$(REQUIRE)" WATTLINE_SECONDS=$(SECONDS_OF_LOAD) CARGO="$(CARGO)" scripts/run-tests

# Longer than `test`, and why it is not there: figures of all papers, long loads, soaks, series of guarded frames and
# fuzzing take from minutes to hours; the program without applications and the release build
# compile most of the workspace once more; packages, units and kernels need whole systems.
test-long: tools-long test build ## that, and longer tests: every figure of all papers, long loads, the examples of CONTRIBUTING.md compiled, the program without applications, every page of the documentation with long measurements, the request generator beside h2load, wrk and memcaslap, minutes of fuzzing, the Python package, the Debian package, kernels 6.1 to 6.18, the emulated machine
	$(RELEASE) test --release -p wattline-reproduce --lib --test reproduce -- --ignored --nocapture
	WATTLINE_SECONDS=30 WATTLINE_SOAK_SECONDS=600 WATTLINE_SOAK_CYCLES=300 \
		CARGO="$(CARGO)" scripts/run-tests system
	WATTLINE_BINARY=target/debug/wattline $(CARGO) test -p system-tests -- --ignored --nocapture
	$(CARGO) test -p house-tests -- --ignored
	$(CARGO) test -p wattline-bench -- --ignored --test-threads 1
	$(CARGO) test -p wattline-govern --lib hold_the_truth -- --ignored --nocapture
	$(CARGO) test --workspace --doc
	$(CARGO) check -p wattline --no-default-features
	WATTLINE_BINARY=target/release/wattline $(CARGO) test -p commands-tests profile -- --include-ignored --nocapture
	WATTLINE_BINARY=target/release/wattline $(CARGO) test -p commands-tests documented -- --ignored --nocapture
	$(CARGO) test -p wattline-requests --test suite -- --ignored --test-threads 1
	BOLERO_RANDOM_TEST_TIME_MS=20000 BOLERO_RANDOM_ITERATIONS=100000000 PROPTEST_CASES=4096 \
		$(CARGO) test --workspace --lib --bins
	WATTLINE_REQUIRE="$(REQUIRE_LONG)" $(MAKE) python package-test rpm-test container-test units-test boot-test
	$(CARGO) test -p wattline-testbed --test kernels -- --ignored --nocapture
	WATTLINE_RESTARTS=20 $(CARGO) test -p wattline-testbed --test restart -- --nocapture
	$(CARGO) test -p wattline-testbed --lib -- --ignored --nocapture
	rig/fetch-tuned && $(CARGO) test -p rig-tests --test rig tuned -- --ignored --nocapture
	$(MAKE) rig

lint:             ## formatting and clippy, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path python/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

dependencies:     ## licences, sources and advisories of all dependencies; that packed crates are whole
	scripts/check-dependencies
	scripts/check-crates

tools:            ## install the programs that demo and tests use (root only; else it lists them)
	@scripts/install-tools

tools-long:       ## these and programs of tests of packages: debootstrap, lintian, rpm, podman, systemd-nspawn
	@scripts/install-tools long

bpf:              ## compile the XDP programs into the objects that are part of the project
	@scripts/build-bpf

rig: build        ## knobs and meters on real drivers, in an emulated machine
	$(RELEASE) run --release -q -p wattline-lab --example rig -- target/release/wattline check

rig-copi: build   ## in that machine: a memcached profiled and governed, and a suspend; root
	$(RELEASE) run --release -q -p wattline-lab --example rig -- target/release/wattline copi

rig-shell: build  ## a prompt in that machine
	$(RELEASE) run --release -q -p wattline-lab --example rig -- target/release/wattline shell

clean-experiments: ## remove namespaces that killed experiments left behind
	@scripts/clean-experiments
