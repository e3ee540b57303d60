# Every way to build, run, test and measure farcall. `make` alone lists them.

export CARGO_TARGET_DIR ?= $(CURDIR)/target
export CARGO_TERM_COLOR ?= auto

FARCALL := $(CARGO_TARGET_DIR)/release/farcall
# What `make run` measured, and beside it the page about it.
REPORT := $(CARGO_TARGET_DIR)/report
# The fuzz targets are a workspace of their own; without libFuzzer they need no C++ compiler.
FUZZ_TESTS := --manifest-path fuzz/Cargo.toml --no-default-features
# Seconds of random inputs for each fuzz target in `make test`.
FUZZ_SECONDS ?= 2
# Where `make install` puts the library for C.
PREFIX ?= /usr/local
# Target and time of `make fuzz`.
TARGET ?= ring
SECONDS ?= 60
# What touches shared memory, sockets or threads.
SANITIZED := --tests -p farcall-driver -p farcall-shm -p farcall-udp -p farcall-transport
# Buffers that others read and write until their completion: messages whole, cut short, cancelled, dropped, and of dead peers.
SANITIZED_MESSAGES := -p farcall --test messages --test messages_ending --test messages_handled --test messages_waiting --test messages_futures --test callbacks --test now_or_then --test panics --test loans --test death_memory
# Tests that hang are ended.
BOUNDED := --config "target.'cfg(unix)'.runner=['$(CURDIR)/scripts/bounded']"
# Passes on what a test prints and fails unless one passed: to `cargo test` a name that matches no test is a success.
ONE_PASSED := awk '{ print; fflush() } /^test result: ok\. 1 passed/ { passed = 1 } END { exit !passed }'

.PHONY: help
help: ## This list
	@sed -n 's/^\([a-z-]*\):.* ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: build
build: ## Builds the program, optimized
	scripts/prepare build
	cargo build --release --locked -p farcall-cli

.PHONY: install
install: ## Installs libfarcall for C and C++ in PREFIX
	scripts/prepare build
	scripts/install-c $(PREFIX)

.PHONY: deb
deb: ## Builds Debian packages of the program and the library in dist/
	scripts/prepare deb
	scripts/deb

.PHONY: man
man: build ## Writes the manual pages of the program in dist/man
	$(FARCALL) manual dist/man

.PHONY: wheel
wheel: ## Builds the wheel for Python, with the program inside, in target/wheels
	scripts/prepare python
	scripts/wheel $(CARGO_TARGET_DIR)/wheels

# Not in `make test`: both revisions are built by rustdoc, which takes minutes. `make release` has it.
.PHONY: semver
semver: ## Compares public items with those of the last tag, or of the revision REVISION
	scripts/semver $(REVISION)

.PHONY: release
release: ## Makes everything of a release in dist/, and checks it
	scripts/release

.PHONY: run
run: build ## Measures round trips on this machine over every transport that it has, and writes a page about them
	rm -rf $(REPORT)
	$(FARCALL) perf echo --record $(REPORT)
	$(FARCALL) report $(REPORT) -o $(REPORT).html
	@echo "the report is at $(REPORT).html"

.PHONY: bench
bench: build ## Measures farcall against the limits of this machine
	$(FARCALL) compare --limit

.PHONY: bench-rdma
bench-rdma: build ## Measures RDMA beside perftest, in a virtual machine with Soft-RoCE devices
	scripts/bench-rdma

.PHONY: vary-rdma
vary-rdma: build ## Measures what the parameters of the verbs drivers change, in the same virtual machine
	scripts/rdma-vm --huge-pages 256 --timeout 3000 $(FARCALL) perf echo --transport ring+verbs,basic+verbs --sizes 100,8K \
		--count 40000 --figure trimmed --blocks 5 --vary verbs.signal_period,verbs.mtu,verbs.inline_bytes,verbs.huge_pages

.PHONY: test
test: lint rustdoc test-fuzz model test-python test-workspace test-keys test-rdma-if-possible test-power-if-possible ## Checks and tests everything

.PHONY: lint
lint: ## Checks format, lints and foreign crates; warnings count as errors
	scripts/prepare lint
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --locked --workspace --features farcall/typed,farcall/bytes --all-targets -- -D warnings
	cargo clippy --locked -p farcall -p farcall-verbs --features device-tests --tests -- -D warnings
	cargo clippy --locked $(FUZZ_TESTS) --all-targets -- -D warnings
	scripts/deny

.PHONY: rustdoc
rustdoc: ## Builds the documentation of the crates; warnings count as errors
	scripts/prepare build
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --exclude farcall-cli --no-deps

# Not in `make test`, which checks the links of all pages itself: the program that makes the book takes minutes to build.
.PHONY: docs
docs: rustdoc ## Builds the documentation of the crates and the book
	scripts/prepare book
	scripts/book

.PHONY: test-workspace
test-workspace: ## Unit, property, conformance and end-to-end tests
	scripts/prepare test
	cargo test $(BOUNDED) --locked --workspace --features farcall/typed,farcall/bytes
	cargo test $(BOUNDED) --locked -p farcall --features probes --test probes

.PHONY: test-python
test-python: ## The wheel for Python, installed into a fresh environment
	scripts/prepare python
	scripts/test-python

.PHONY: test-keys
test-keys: ## The tests of calls and messages over packets that are sealed with a cluster key
	scripts/test-keys

.PHONY: test-million
test-million: ## A million messages that nobody expects, over every transport; `make test` sends fewer over some
	scripts/prepare test
	cargo test --locked --release -p farcall --test messages -- --nocapture --exact \
		far_more_unexpected_messages_than_fit_wait_at_their_sender_and_none_is_lost | $(ONE_PASSED)

# Seconds of `make test-churn` over each transport.
CHURN_SECONDS ?= 600

.PHONY: test-churn
test-churn: ## CHURN_SECONDS over each of three transports in which 200 clients come and go, and servers are killed
	scripts/prepare test
	FARCALL_TEST_SECONDS=$(CHURN_SECONDS) FARCALL_TEST_CLIENTS=200 cargo test --locked --release -p farcall \
		--test open_cluster -- --nocapture | $(ONE_PASSED)

.PHONY: test-faults
test-faults: ## Ten times as many calls over networks with faults as `make test` makes
	scripts/prepare test
	FARCALL_TEST_FAULT_TIMES=10 cargo test --locked --release -p farcall --test faults -- --nocapture

.PHONY: landscapes
landscapes: ## The default search of the tuner on forty synthetic landscapes, of which `make test` tries two
	scripts/prepare build
	cargo test --locked --release -p farcall-tune --test landscape -- --ignored --nocapture | $(ONE_PASSED)
	cargo test --locked --release -p farcall-tune --test rough_landscapes -- --ignored --nocapture | $(ONE_PASSED)

.PHONY: test-rdma
test-rdma: ## Drivers and transports over RDMA, in a virtual machine with Soft-RoCE devices
	scripts/prepare build
	scripts/test-rdma

# The greater part of it, for `make test`: where there can be no virtual machine it only says so.
.PHONY: test-rdma-if-possible
test-rdma-if-possible:
	scripts/prepare build
	scripts/test-rdma --if-possible --quick

.PHONY: test-power
test-power: ## A thousand power cuts of a virtual machine under load of a store with a flushed table
	scripts/prepare build
	scripts/test-power

# A few, for `make test`: where there can be no virtual machine it only says so.
.PHONY: test-power-if-possible
test-power-if-possible:
	scripts/prepare build
	scripts/test-power --if-possible --cuts 3

.PHONY: test-fuzz
test-fuzz: ## Every fuzz target over its kept inputs and FUZZ_SECONDS of random ones
	scripts/prepare build
	FARCALL_TEST_FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --locked $(FUZZ_TESTS) --test corpus -- --nocapture

.PHONY: fuzz
fuzz: ## Fuzzes TARGET (ring, basic, …) for SECONDS with coverage feedback
	scripts/prepare fuzz
	mkdir -p fuzz/corpus/$(TARGET)
	RUSTC_BOOTSTRAP=1 cargo fuzz run --target-dir $(CARGO_TARGET_DIR)/fuzz $(TARGET) \
		fuzz/corpus/$(TARGET) fuzz/seeds/$(TARGET) -- -max_total_time=$(SECONDS) -max_len=4096

.PHONY: model
model: ## Explores the interleavings of the lock-free parts, and the states of the protocol of replication
	scripts/prepare build
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/loom RUSTFLAGS="--cfg loom" \
		cargo test --locked --release -p farcall-shm --test loom
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/shuttle RUSTFLAGS="--cfg shuttle" \
		cargo test --locked --release -p farcall-shm --test shuttle
	cargo test --locked --release -p farcall-replica --test model

.PHONY: cross-aarch64
cross-aarch64: ## Tests what processes share memory by on an emulated aarch64
	scripts/prepare cross-aarch64
	scripts/cross-aarch64

.PHONY: sanitize
sanitize: asan tsan ## Tests of memory and threads under AddressSanitizer and ThreadSanitizer

.PHONY: asan
asan:
	scripts/sanitize address $(SANITIZED)
	FARCALL_TEST_TRANSPORTS=ring+shm,basic+udp,homa+udp scripts/sanitize address $(SANITIZED_MESSAGES)

.PHONY: tsan
tsan:
	scripts/sanitize thread $(SANITIZED)

.PHONY: clean
clean: ## Removes what was built
	cargo clean
	cargo clean --manifest-path fuzz/Cargo.toml
