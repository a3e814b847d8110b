# Everything installs what it needs; as root, on Debian 12 or 13.
PYTHON := .venv/bin/python
WORKERS ?= 2
SEED ?= 1
FLOWS ?= 20000

.PHONY: setup demo lab fuzz test test-long lint docs bench bench-cni bench-datapath cni-binary clean

setup:
	bash scripts/setup.sh

demo: setup
	$(PYTHON) -m meshnet demo

# Every scenario of docs/lab.md, and a page that shows them: REPORT/index.html.
REPORT ?= build/lab
lab: setup
	$(PYTHON) -m meshnet lab run --all --report $(REPORT)

test: setup
	$(PYTHON) -m pytest -n $(WORKERS) -m "not long" tests

test-long: setup
	$(PYTHON) -m pytest -n $(WORKERS) tests

fuzz: setup
	$(PYTHON) -m tests.netns.fuzz $(SEED) $(FLOWS)

lint: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports

docs: setup
	$(PYTHON) scripts/gen_spec_docs.py

bench: setup
	$(PYTHON) -I scripts/bench.py
	$(PYTHON) scripts/bench_simulate.py

bench-datapath: setup
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'matplotlib>=3.7'
	$(PYTHON) scripts/bench_datapath.py
	$(PYTHON) scripts/bench_latency.py

cni-binary: setup
	$(PYTHON) scripts/pack/cni_binary.py

bench-cni: cni-binary
	$(PYTHON) -I scripts/bench_cni.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
