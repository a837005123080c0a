# The main commands of the project. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
# Tools that are built from their source live beside the testbed's binaries.
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kantor/tools
DENY_VERSION := 0.20.2
DENY := $(TOOLS)/cargo-deny-$(DENY_VERSION)/bin/cargo-deny
MUTANTS_VERSION := 27.1.0
MUTANTS := $(TOOLS)/cargo-mutants-$(MUTANTS_VERSION)/bin/cargo-mutants

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What the testbed's binaries are for: the demo needs neither Helm, nor a gateway, nor a checker of alert rules.
FOR ?= test
demo picture bench: FOR := demo

.PHONY: demo
demo: assets ## Real clusters, the operator and a sample, step by step (1 minute; the first time see assets)
	@$(CARGO) build --quiet --bin kantor
	@$(CARGO) run --quiet --package kantor-testbed -- demo $(DEMO)

.PHONY: picture
picture: assets ## Run the demo and draw what it wrote, for the README
	@$(CARGO) build --quiet --bin kantor
	@recorded=$$(mktemp); trap 'rm -f "$$recorded"' EXIT; mkdir -p docs/images; \
	$(CARGO) run --quiet --package kantor-testbed -- demo --exit | tee "$$recorded"; \
	$(CARGO) run --quiet --package kantor-testbed -- picture --from "$$recorded" --to docs/images/demo.svg

.PHONY: test
test: assets ## All tests, on real clusters (the first time see assets)
	@# Tests wait for clusters more than they compute. What the operator did in some is compared with its roles in another.
	requests=$$(mktemp); trap 'rm -f "$$requests"' EXIT; \
	KANTOR_REQUESTS=$$requests RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$(( 2 * $$(getconf _NPROCESSORS_ONLN) ))} \
		$(CARGO) test --workspace --locked --no-fail-fast

# The C library is linked into the program alone: all that it depends on is shared with the other builds.
STATIC := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/static/kantor

.PHONY: image-test
image-test: ## Build the image's last stage with buildah and look inside (needs root)
	@# Where KANTOR_REQUIRE_IMAGE=1 is set, an image that cannot be built is a failure.
	@install_buildah() { apt-get install -y --no-install-recommends buildah >/dev/null; }; \
	command -v buildah >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& { install_buildah || { apt-get update >/dev/null && install_buildah; }; }; } \
		|| { echo "SKIPPED: no buildah, the image is not built" >&2; [ "$${KANTOR_REQUIRE_IMAGE:-}" != 1 ] || exit 1; exit 0; }; \
	$(CARGO) rustc --quiet --locked --bin kantor -- -C target-feature=+crt-static; \
	install -D --strip $(dir $(STATIC))../debug/kantor $(STATIC); \
	KANTOR_STATIC_BINARY=$(STATIC) $(CARGO) test --quiet --locked --test packaging image::

.PHONY: lint
lint: ## Format, clippy, dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(MAKE) --no-print-directory fuzz-check deny

.PHONY: fuzz-check
fuzz-check: ## Type-check the fuzz target, which is a workspace of its own
	$(CARGO) check --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir $(or $(CARGO_TARGET_DIR),target)

# Decisions on which tenants rest, and the tests that are to notice when one of them changes.
MUTATED := core/src/changes.rs 'core/src/changes/*.rs' core/src/endpoint/assess.rs core/src/lifecycle.rs core/src/tenancy.rs 'core/src/tenancy/*.rs'
NOTICING := changes endpoint::assess lifecycle tenancy

.PHONY: mutants
mutants: $(MUTANTS) ## Change decisions one by one and see a unit test fail: FILES='core/src/changes.rs', at most 30 minutes
	@# In a copy that has the decisions alone: all of the operator takes longer to build than these tests to run, and nothing is
	@# left in the tree if it is stopped. Where the time is over, the rest is not tried: the counts say how many were.
	copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	cp -a --parents Cargo.toml Cargo.lock rust-toolchain.toml api core config "$$copy"; \
	sed -i 's/^members = .*/members = ["api", "core"]/; /^\[package\]/,/^\[lints\]/d; s/^kantor.*path = "\(\.\|tests.*\)" }//' "$$copy/Cargo.toml"; \
	export CARGO_TARGET_DIR=$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/mutants; mkdir -p "$$CARGO_TARGET_DIR"; \
	timeout --signal=INT 1800 $(MUTANTS) mutants --dir "$$copy" --in-place --timeout 300 --cargo-arg=--lib --package kantor-core --output "$$CARGO_TARGET_DIR" \
		$(foreach file,$(or $(FILES),$(MUTATED)),--file $(file)) -- -- $(if $(FILES),,$(NOTICING)) \
		|| [ $$? = 124 ]; \
	cd "$$CARGO_TARGET_DIR/mutants.out"; wc --lines caught.txt missed.txt timeout.txt unviable.txt; [ ! -s missed.txt ]

$(MUTANTS):
	@echo "building cargo-mutants $(MUTANTS_VERSION), once"
	$(CARGO) install cargo-mutants --quiet --locked --version $(MUTANTS_VERSION) --root $(TOOLS)/cargo-mutants-$(MUTANTS_VERSION)

.PHONY: deny
deny: $(DENY) ## Licences, sources and duplicates of the dependencies
	$(DENY) --log-level error check bans licenses sources

$(DENY):
	@echo "building cargo-deny $(DENY_VERSION), once"
	$(CARGO) install cargo-deny --quiet --locked --version $(DENY_VERSION) --root $(TOOLS)/cargo-deny-$(DENY_VERSION)

.PHONY: generate
generate: ## Write crds/, config, the charts' copies and docs/reference
	KANTOR_GENERATE=1 $(CARGO) test --quiet --test generated

.PHONY: goldens
goldens: ## Accept what is rendered now as what shall be rendered: read the difference before you commit it
	KANTOR_GOLDENS=1 $(CARGO) test --quiet --test render
	@git --no-pager diff --stat -- tests/render

.PHONY: bench
bench: $(if $(filter hostile,$(ONLY)),,assets) ## Measure the operator on real clusters: ONLY=cold,edit N=100 PLANES=2, FULL=1 for everything, CHECK=1 to fail on missed goals
	@$(CARGO) build --quiet --release --package kantor --package kantor-bench \
		$(if $(filter hostile,$(ONLY)),,--bin kantor) --bin kantor-bench --bin kantor-bench-hostile
	@target/release/kantor-bench $(if $(ONLY),--only $(ONLY)) $(if $(N),-n $(N)) \
		$(if $(PLANES),--planes $(PLANES)) $(if $(FULL),--full) $(if $(CHECK),--check)

.PHONY: assets
assets: ## Get the testbed's binaries, once: FOR=demo takes 13 minutes where they are built, less with downloads; all of them 11 more
	@# Published binaries are downloaded; KANTOR_ASSETS=build builds them as well. Times are those of two cores.
	@$(CARGO) build --quiet --package kantor-testbed
	@$(CARGO) run --quiet --package kantor-testbed -- assets --for $(FOR)

.PHONY: clean
clean: ## Remove what was built here; the testbed's binaries stay in the cache
	$(CARGO) clean
