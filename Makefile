# The first two targets are the two commands of the README. Each of them sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := .venv-bench

.PHONY: run test check types tests docs page bench bench-full bridge clean

run: $(READY)  ## train, compare, ask and keep a model of the bundled UMLS graph
	$(BIN)/dura demo

test: check tests  ## lint, types, import floors and all tests

check: $(READY)  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

tests: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

docs: $(READY)  ## the documentation as a site in build/site; open build/site/index.html
	$(BIN)/python docs/site build/site

page:  ## check and build the page of 'dura serve' from page/ into src/dura/web/page; needs Node 20.19 or newer
	cd page && npm install --no-save && npm run build  # the lock file lacks bindings of other platforms, so not npm ci

bench: $(BENCH)/.ready  ## speed and memory next to bare products, the paper's literal loop and PyKEEN; about four minutes
	$(BENCH)/bin/python benchmarks/speed.py

bench-full: $(BENCH)/.ready  ## the same for every model, rank and size
	$(BENCH)/bin/python benchmarks/speed.py --full

bridge: $(BENCH)/.ready  ## the tests of the bridge to PyKEEN, with PyKEEN from PyPI; about two minutes
	OMP_NUM_THREADS=1 $(BENCH)/bin/python -m pytest tests/bridges tests/benchmarks/test_same_scores.py -n 0  # small tensors

clean:
	rm -rf $(VENV) $(BENCH) .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The constraints file pins the version of torch. It is a small CPU build if the package index offers one. TORCH_INDEX names
# another index for torch, such as PyTorch's CPU index. If CUDA packages would be downloaded, a message says so first.
TORCH_INDEX ?=
TORCH := torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
$(READY): pyproject.toml constraints.txt
	$(call set-up,$(VENV),dev)

# The benchmarks have a separate environment, because PyKEEN needs many packages that dura does not.
$(BENCH)/.ready: pyproject.toml constraints.txt
	$(call set-up,$(BENCH),bench)

define set-up
	$(PYTHON) -c 'import sys; sys.exit("dura needs Python 3.11 or newer; set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install --quiet --constraint constraints.txt --dry-run --report $(1)/plan.json $(TORCH)
	@if grep -q '"nvidia' $(1)/plan.json; then \
	  echo "Your package index offers torch with CUDA only: several gigabytes follow."; \
	  echo "To have the small CPU build, stop with Ctrl-C within 10 seconds and run: make run TORCH_INDEX=<PyTorch's CPU index>"; \
	  sleep 10; fi
	$(1)/bin/python -m pip install --quiet --constraint constraints.txt $(TORCH)
	$(1)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[$(2)]'
	touch $(1)/.ready
endef
