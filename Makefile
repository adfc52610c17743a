# `make` prints this help. Every target does its own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Byte code is kept on purpose: without it each start of Airflow costs 20 seconds more.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.ready
PYTHON ?= $(firstword $(foreach name,python3.11 python3 /usr/bin/python3.11,\
    $(shell $(name) -c 'import sys; sys.version_info[:2] == (3, 11) and print("$(name)")' 2>/dev/null)))
TOOLS := build/docker-check
# Schemas of this version of Kubernetes, which the package kubernetes-validate carries.
KUBERNETES := 1.37.0
COVERAGE := $(BIN)/coverage
KERNELS := build/kernels.compiled
# What takes the kernels' every function to compile, before many processes start and each compiles its own; so of the tests' byte code.
COMPILING := $(addprefix tests/unit/,rows/test_variant.py rows/test_emit.py rows/test_json_images.py rows/test_json_pieces.py rows/test_siphash.py binlog/test_framing.py binlog/test_values.py binlog/test_json_binary_column.py binlog/test_log_files.py sources/test_snapshot_rows.py sinks/test_written_rows.py sinks/test_kafka_produce.py expressions/test_texts.py expressions/test_json_paths.py)
# What `make test-lowest` runs beside the unit tests: a flow through Spark Connect into Kafka.
ONE_FLOW := tests/integration/test_path.py::test_connect_engine
# What old releases of packages warn of in their own code: Starlette 0.46, Airflow 3.1.
OLD_WARNINGS := -W 'ignore:The anyio.abc.BlockingPortal alias is deprecated:DeprecationWarning' -W 'ignore:The `airflow.operators.branch:FutureWarning'
# What `make test-python` runs: kinds, stages and stores, what a row passes.
ON_ANOTHER_PYTHON := $(addprefix tests/unit/,core checkpoints rows runtime sinks sources)
# What `make coverage` runs beside the unit tests: contracts of the checkpoint store and of both sinks, on real servers.
CONTRACTS := $(addprefix tests/integration/,checkpoints test_sink_kafka.py test_sink_search.py)
COMPOSE := docker compose --env-file include/databus/sandbox/versions.env --env-file docker/secrets.env -f docker/compose.yaml
# Arguments for pytest, the demo, the benchmark: make test ARGS="-k kafka -x"
ARGS ?=
# Processes of the test run, each with servers of its own; the third waits for Airflow, a fourth takes tests without servers. 0 runs the tests in
# pytest's own process.
PROCESSES ?= 4
IN_PROCESSES := --numprocesses=$(PROCESSES) --dist=loadscope --no-loadscope-reorder --max-worker-restart=0

.PHONY: help
help: ## Print this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2} /^##@ /{printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

##@ Try it
.PHONY: demo sandbox-up sandbox-down sandbox-status
demo: setup java ## Real servers, a shop that changes, flows run by Airflow, a comparison at the end (KEEP=1 leaves it running)
	$(BIN)/python -m databus.demo $(if $(KEEP),--keep) $(ARGS)

sandbox-up: setup java ## Start the sandbox's servers (SERVERS="kafka mysql" chooses)
	$(BIN)/databus sandbox up $(SERVERS)

sandbox-down: setup ## Stop what sandbox-up started
	$(BIN)/databus sandbox down

sandbox-status: setup ## Servers of the sandbox with address and process
	$(BIN)/databus sandbox status

##@ Check it
.PHONY: test kernels test-full test-changed test-loaded test-unit faults faults-live faults-mixed faults-spark faults-scheduler faults-zombies faults-mirror faults-snapshot mutants lint format docker-check kubernetes-check charts-check bench bench-decode bench-e2e bench-catchup bench-snapshot bench-freshness bench-mirror bench-mirror-delay bench-mirror-link bench-plan docs coverage test-lowest test-python
test: setup java kernels ## Every path once, on real servers that it starts itself (PROCESSES=0: one by one; RERUN=1: failed tests once more, alone)
	$(BIN)/python -m $(if $(filter 1,$(RERUN)),tests.suite.steady,pytest) $(IN_PROCESSES) -m "not full" $(ARGS)

test-full: setup java kernels ## The whole suite: all servers, engines and kinds, long faults (HALF="not full", HALF=full: in two runs)
	DATABUS_TEST_REPORT="$(CURDIR)/docs/test_full.md" $(BIN)/python -m pytest $(IN_PROCESSES) $(if $(HALF),-m "$(HALF)") $(ARGS)

test-changed: setup java ## What a change touches, by imports and names, in about 8 minutes (SINCE=commit; default: what is not committed; ARGS="--minutes 20")
	$(BIN)/python -m tests.suite.changed $(if $(SINCE),--since $(SINCE)) $(ARGS)

test-loaded: setup java kernels ## A sample of the server tests beside two busy loops
	$(BIN)/python -m tests.suite.loaded $(ARGS)

test-lowest: setup java ## The lowest versions that pyproject allows, in an environment of its own: unit tests and a flow (needs a package registry)
	$(BIN)/python packaging/trial.py build/lowest --lowest -- $(IN_PROCESSES) -m "not full" $(OLD_WARNINGS) \
	    $(or $(ARGS),tests/unit --ignore=tests/unit/suite $(ONE_FLOW))

test-python: setup ## Unit tests on another Python, from the wheels in an environment of its own (VERSION=3.13; needs a package registry)
	$(BIN)/python packaging/trial.py build/python-$(VERSION) --python $(or $(VERSION),$(error VERSION=3.12 or 3.13)) -- \
	    $(IN_PROCESSES) -m "not full" $(or $(ARGS),$(ON_ANOTHER_PYTHON))

kernels: $(KERNELS) ## Compile the decoder's kernels once, by the tests that use most of them, and the tests' byte code (`make test` does)
$(KERNELS): $(READY) $(wildcard include/databus/binlog/kernels/*.py include/databus/rows/*.py include/databus/sinks/*.py)
	@mkdir -p $(@D)
	env -u DATABUS_TEST_REPORT -u DATABUS_TEST_PROFILE $(BIN)/python -m pytest --quiet -p no:cacheprovider $(COMPILING)
	env -u DATABUS_TEST_REPORT -u DATABUS_TEST_PROFILE $(BIN)/python -m pytest --quiet --quiet --collect-only -p no:cacheprovider tests
	@touch $@

test-unit: setup ## Unit tests only: no servers, no Spark
	$(BIN)/python -m pytest tests/unit $(ARGS)

coverage: $(COVERAGE) java kernels ## Lines of core, runtime, checkpoints and sinks that unit tests and contracts run, module by module
	$(COVERAGE) erase
	$(COVERAGE) run -m pytest tests/unit $(CONTRACTS) --quiet --numprocesses=2 --dist=loadscope -m "not full" $(ARGS)
	$(COVERAGE) combine --quiet
	$(COVERAGE) report

$(COVERAGE): $(READY)
	$(BIN)/uv pip install --python $(BIN)/python --quiet coverage==7.17.3
	@touch $@

faults: setup java ## Faults on servers of its own, table by fault (ROUNDS=100 SEED=1; ARGS="--minutes 60")
	$(BIN)/python -m tests.faults --rounds $(or $(ROUNDS),100) $(if $(SEED),--seed $(SEED)) $(ARGS)

faults-live: setup java ## The same of a flow in the live lane (ROUNDS=60 SEED=1; ARGS="--server-share 0.5")
	$(BIN)/python -m tests.faults --mode live --rounds $(or $(ROUNDS),60) $(if $(SEED),--seed $(SEED)) $(ARGS)

faults-mixed: setup java ## Mixed faults on clusters of its own, two sinks (MINUTES=60 SEED=1; ARGS="--kinds 'run killed'")
	$(BIN)/python -m tests.faults.mixed --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED)) $(ARGS)

faults-spark: setup java ## The same with tasks in a real Spark Connect server, which is killed too; slow (MINUTES=15)
	$(BIN)/python -m tests.faults.mixed --spark --minutes $(or $(MINUTES),15) $(if $(SEED),--seed $(SEED)) $(ARGS)

faults-scheduler: setup java ## kill -9 of a real Airflow scheduler under a scheduled flow (ROUNDS=5 SEED=1)
	$(BIN)/python -m tests.faults.mixed.scheduler --rounds $(or $(ROUNDS),5) $(if $(SEED),--seed $(SEED)) $(ARGS)

faults-mirror: setup java ## Faults on a mirror between two clusters of three brokers (ROUNDS=200 SEED=1; ARGS="--target-brokers 1")
	$(BIN)/python -m tests.faults.mirror --rounds $(or $(ROUNDS),200) $(if $(SEED),--seed $(SEED)) $(ARGS)

faults-snapshot: setup java ## Faults on a flow that begins with rows that are there, then snapshots on demand (ROUNDS=300 SEED=1)
	$(BIN)/python -m tests.faults.snapshots --rounds $(or $(ROUNDS),300) $(if $(SEED),--seed $(SEED)) $(ARGS)

faults-zombies: setup java ## 200 zombies (paused runs, orphaned tasks), half of them initialise late
	$(BIN)/python -m tests.faults --rounds $(or $(ROUNDS),200) $(if $(SEED),--seed $(SEED)) --kinds "late initialiser" "late initialiser" \
	    "late initialiser" "zombie driver" "zombie both" "zombie executor" $(ARGS)

mutants: setup java ## Plant bugs one by one; each must be caught by the protocol model, the fault harness or a named test
	$(BIN)/python -m tests.faults.mutants $(ARGS)

lint: setup ## ruff, mypy (strict; of the tests, that what they name is there), import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests
	$(BIN)/lint-imports

format: setup ## Format the code, and repair what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## Build the documents' site into build/site, strictly (open build/site/index.html)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docker-check: $(TOOLS)/composecheck ## Compose file, Dockerfiles, scripts and versions of docker/ (needs no docker engine)
	$(TOOLS)/venv/bin/python docker/check.py --composecheck "$(CURDIR)/$<" \
	    --hadolint "$(CURDIR)/$(TOOLS)/venv/bin/hadolint" --shellcheck "$(CURDIR)/$(TOOLS)/venv/bin/shellcheck"

kubernetes-check: $(TOOLS)/helm ## Charts and values of docker/kubernetes by helm and kubeconform (AIRFLOW_CHART=folder or archive: Airflow's, too)
	$(TOOLS)/venv/bin/python docker/check_kubernetes.py --helm "$(CURDIR)/$(TOOLS)/helm" --kubeconform "$(CURDIR)/$(TOOLS)/kubeconform" \
	    --schemas "$$(echo $(CURDIR)/$(TOOLS)/venv/lib/python*/site-packages/kubernetes_validate)/kubernetes-json-schema/v$(KUBERNETES)-local-strict" \
	    --kubernetes-version $(KUBERNETES) $(if $(AIRFLOW_CHART),--airflow-chart "$(AIRFLOW_CHART)")

charts-check: setup ## Dashboards and Prometheus rules by promtool (on the PATH, or PROMTOOL=; Debian: package prometheus)
	$(BIN)/python docker/check_charts.py --promtool "$(or $(PROMTOOL),promtool)"

bench-decode: setup java ## Rows per CPU-second of decoding (ARGS="--scaling" starts Spark too)
	$(BIN)/databus bench decode $(ARGS)

bench-e2e: setup java ## Rows per second from the binlog to Kafka, beside Debezium on the same log
	$(BIN)/databus bench e2e $(ARGS)

bench-catchup: setup java ## Seconds to clear a backlog, beside Debezium (ARGS="--backlog 18000000" is an hour at 5,000 rows/s)
	$(BIN)/databus bench catchup $(ARGS)

bench-snapshot: setup java ## Rows per second of a table that is there into Kafka, beside Debezium's snapshots (ARGS="--lag": the stream meanwhile)
	$(BIN)/databus bench snapshot $(ARGS)

bench-freshness: setup java ## Delay from a commit to a read_committed reader, beside Debezium (ARGS="--airflow" for 30 minutes of runs, --flows 5)
	$(BIN)/databus bench freshness $(ARGS)

bench-mirror-delay: setup java ## Delay of a live mirror that Airflow runs for 30 minutes, beside MirrorMaker 2 (ARGS="--minutes 5")
	$(BIN)/databus bench mirror-delay $(ARGS)

bench-mirror: setup java ## Records per second from one Kafka to another, beside MirrorMaker 2 with and without exactly once
	$(BIN)/databus bench mirror $(ARGS)

bench-mirror-link: setup java ## Seconds to catch up after a mirror's link was down for 10 minutes (ARGS="--minutes 1")
	$(BIN)/databus bench mirror-link $(ARGS)

bench-plan: setup java ## CPU seconds and requests of a mirror's plan over 5,000 topic-partitions
	$(BIN)/databus bench plan $(ARGS)

bench: bench-e2e ## The same as bench-e2e

.PHONY: reference charts screenshots
reference: setup ## Write the pages of docs/reference from the code (a unit test compares them)
	$(BIN)/python -m tests.reference

charts: setup ## Write dashboards and Prometheus rules from databus.observe.charts (a unit test compares them)
	$(BIN)/python -m databus.observe.charts docker

screenshots: setup java ui ## Pictures of the pages in light and dark into docs/screenshots, from a real Airflow with a flow that runs (needs Chromium)
	mkdir -p docs/screenshots
	DATABUS_TEST_PICTURES=$(CURDIR)/docs/screenshots $(BIN)/python -m pytest -q -n 0 -m "" tests/e2e/test_screenshots.py

##@ Run it in containers
.PHONY: docker-up docker-down docker-secrets
docker-up: docker-secrets ## Build the images and start the whole system (needs docker with compose)
	$(COMPOSE) up --detach --build --wait

docker-down: docker-secrets ## Stop it; the volumes stay
	$(COMPOSE) down

docker-secrets: docker/secrets.env ## Write docker/secrets.env with random values, unless it is there

docker/secrets.env:
	@umask 077; $(or $(PYTHON),python3) -c 'import base64, re, secrets, sys; \
	    value = lambda key: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode() if "FERNET" in key else secrets.token_hex(24); \
	    sys.stdout.writelines(f"{key}={value(key)}\n" for key in re.findall(r"(?m)^(\w+)=", open("$@.example").read()))' > $@
	@echo "wrote $@"

##@ Set it up
.PHONY: setup java lock wheels ui clean
setup: $(READY) ## Make .venv with the pinned requirements and databus itself

# Debian keeps venv's pip in a package of its own.
define install_venv
	if [ -z "$(PYTHON)" ] || ! $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo "installing python3.11-venv"; \
	        export DEBIAN_FRONTEND=noninteractive; \
	        apt-get -q update && apt-get -q install -y --no-install-recommends python3.11 python3.11-venv; \
	    else \
	        echo "Python 3.11 with venv is needed: sudo apt-get install python3.11 python3.11-venv" >&2; exit 1; \
	    fi; \
	fi
endef

# A folder left by another path or Python cannot be repaired: it is made again.
$(READY): requirements.txt pyproject.toml
	@$(install_venv)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null \
	    && [ "$$($(BIN)/python -c 'import sys; print(sys.prefix)')" = "$(CURDIR)/.venv" ] \
	    || $(or $(PYTHON),python3.11) -m venv --clear .venv
	@[ -x $(BIN)/uv ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.txt uv
	$(BIN)/uv pip install --python $(BIN)/python --quiet --compile-bytecode -r requirements.txt
	@rm -rf include/*.egg-info
	$(BIN)/uv pip install --python $(BIN)/python --quiet --no-deps --editable .
	@touch $@

java: setup ## Find Java 17, or install it where that is possible (root on Debian or Ubuntu)
	@$(BIN)/python -c 'from databus.sandbox.packages import require_java; require_java()'

lock: setup ## Compile requirements.in to requirements.txt (ARGS="--upgrade-package X" moves one)
	$(BIN)/uv pip compile --python $(BIN)/python --quiet --no-annotate --no-header --output-file requirements.txt requirements.in $(ARGS)

wheels: setup ## Build the wheels databus and databus-sandbox into dist (needs no network)
	$(BIN)/python packaging/wheels.py dist

ui: ## Build the pages of Airflow's plugin (Node 20) into include/databus/web/bundle, which is committed
	cd ui && npm ci --no-audit --no-fund && npm run --silent build

clean: ## Remove what builds and tests leave behind (.venv and docker/secrets.env stay)
	rm -rf build dist include/*.egg-info include/databus/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse
	find include tests dags jobs plugins docker -name __pycache__ -type d -prune -exec rm -rf {} +

$(TOOLS)/venv/.ready: docker/check-requirements.txt
	@$(install_venv)
	@$(or $(PYTHON),python3.11) -m venv --clear $(TOOLS)/venv
	$(TOOLS)/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r $<
	@touch $@

$(TOOLS)/composecheck: $(TOOLS)/venv/.ready $(wildcard docker/composecheck/*)
	cd docker/composecheck && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly GOWORK=off \
	    "$(CURDIR)/$(TOOLS)/venv/bin/go" build -buildvcs=false -trimpath -o "$(CURDIR)/$@" .

$(TOOLS)/helm: $(TOOLS)/venv/.ready $(wildcard docker/kubernetes/tools/*)
	$(TOOLS)/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r docker/kubernetes/tools/requirements.txt
	cd docker/kubernetes/tools && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly GOWORK=off \
	    "$(CURDIR)/$(TOOLS)/venv/bin/go" build -buildvcs=false -trimpath -o "$(CURDIR)/$(TOOLS)/" \
	    github.com/yannh/kubeconform/cmd/kubeconform helm.sh/helm/v3/cmd/helm
