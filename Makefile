# Each target gets what it needs by itself; `make demo` is the place to start.

FUZZ_SECONDS ?= 600
CARGO_TEST = cargo test --all-features

# The test files that start no real server, only scripted ones.
CALLS_SERVER = \bserver(_with)?\(|\bServer::
OFFLINE_TESTS = $(basename $(notdir $(shell grep -LE '$(CALLS_SERVER)' tests/*.rs)))

.PHONY: demo test test-offline bench lint doc loom fuzz check server

demo: server
	@cargo run --release --quiet --features testing --example demo

# On the first server found; REDEFER_SERVER=path and REDEFER_PROTOCOL=resp2 or resp3 choose.
test: server
	$(CARGO_TEST)

test-offline:
	$(CARGO_TEST) --lib $(addprefix --test ,$(OFFLINE_TESTS))

bench: server
	@scripts/bench.sh

lint:
	cargo fmt --check
	cargo clippy --all-targets --all-features -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features

# The threads of a `Shared` in every order. LOOM_MAX_PREEMPTIONS=n looks further than 3.
loom:
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --release --lib shared::model

# Each target for FUZZ_SECONDS.
fuzz:
	@scripts/fuzz.sh $(FUZZ_SECONDS)

# What must pass before a commit. .ci/run does the same on every server and in both protocols.
check: lint doc test

server:
	@scripts/servers.sh one
