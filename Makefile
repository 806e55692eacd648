# Two commands on a fresh machine: `make run` starts the gateway, `make test` runs the tests.
#
# Python 3.11, make and Debian's package manager are all that is assumed.  The stamps in .venv say what has been
# installed there; they age with pyproject.toml.  What comes from elsewhere is brought by tests/install-tools.

PYTHON ?= python3
BIN := .venv/bin
export PYTHON

.PHONY: help run test test-long test-all test-tools pipeline check coverage bench bench-pipeline crash fuzz attacks conformance docs lock static wheel clean

help:
	@sed -n 's/^# \(make [a-z-]* .*\)/\1/p' Makefile

# make run          start the gateway: TCP 61613, WebSocket 15674, HTTP 8000, all on loopback
run: .venv/runtime
	@tests/install-tools page || echo "The gateway runs without it; only the demo page needs it." >&2
	@options="$$($(BIN)/gateway check-config --bind --hypercorn)" && eval "exec $(BIN)/hypercorn -k trio $$options gateway.app:app"

# make test         install what the tests need, and run all but the long ones; ARGS="-k name" picks, WORKERS=0: no workers
# What pytest makes of the tests' modules is kept for the next run: to make it takes each worker 14 s of CPU.
WORKERS ?= 2
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --numprocesses $(WORKERS)
test: test-tools
	$(PYTEST) -m "not long" $(ARGS)

# make test-long    the long ones: what is random, kills or takes minutes, like crash rounds, Spark and attacks
test-long: test-tools
	$(PYTEST) -m long $(ARGS)

# make test-all     both, one after the other
test-all: test test-long

# The gateway is compiled once, not with each of its starts where PYTHONDONTWRITEBYTECODE is set.
test-tools: .venv/dev .venv/suites
	@tests/install-tools tests
	@$(BIN)/python -m compileall -q gateway pyspark_stomp

# make pipeline     install what `gateway pipeline` needs: Spark, Arrow, a Java; and stomp.py, for the examples
pipeline: .venv/pipeline
	@$(BIN)/gateway pipeline doctor

# make check        ruff and mypy
check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/mypy

# make coverage     codec and broker by their own tests alone: every line and every branch
coverage: .venv/dev
	$(BIN)/coverage run -m pytest -q -m "not long" tests/codec tests/broker
	$(BIN)/coverage report --include='gateway/codec/*,gateway/broker/*' --fail-under=100

# make bench        microseconds of server CPU per message
bench: .venv/dev
	$(BIN)/python -m benchmarks $(ARGS)

# make bench-pipeline  rows per second from journal to report, and what the journal costs the gateway; ARGS=--quick
bench-pipeline: .venv/dev
	$(BIN)/python -m benchmarks.pipeline $(ARGS)

# make crash        200 rounds of kill -9, and what was promised compared; ARGS="--seed N --rounds 1" repeats one
#                   ARGS="--edges 2": also edges that are killed, stopped and cut off, while others go on
#                   ARGS=--cluster: machines of a cluster that are killed, stopped and cut off, as root
crash: .venv/dev
	$(BIN)/python -m tests.crash $(ARGS)

# make fuzz         half an hour of octets that nobody would send; ARGS="--minutes 5 decoder" for less
fuzz: .venv/fuzz
	$(BIN)/python -m tests.fuzz $(ARGS)

# make attacks      every attack of tests/attacks for 5 s, and what it costs a neighbour; ARGS="--seconds 2 loris"
attacks: .venv/dev
	$(BIN)/python -m tests.attacks $(ARGS)

# make conformance  the table of the requirements: pass or fail, per version and transport
conformance: .venv/dev
	$(BIN)/python -m pytest -q tests/conformance --conformance-table $(ARGS)

# make docs         pages that are made out of the code, and the site in site/; a dead link fails
docs: .venv/docs
	$(BIN)/python -m docs.generate.settings > docs/settings.md
	$(BIN)/python -m docs.generate.headers > docs/headers.md
	$(BIN)/python -m docs.generate.journal > docs/journal.md
	$(BIN)/python -m docs.generate.api > docs/api.md
	$(BIN)/python -m docs.generate.metrics > docs/metrics.md
	$(BIN)/python -m docs.generate.logs
	$(BIN)/python -m docs.generate.commands > docs/commands.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# make lock         what the image installs: the newest versions that pyproject.toml allows, with hashes, in deploy/lock/
LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock"
lock: .venv/lock
	$(LOCK) --group build --output-file deploy/lock/build.txt
	$(LOCK) pyproject.toml --output-file deploy/lock/gateway.txt
	for extra in pipeline java otel; do \
		$(LOCK) pyproject.toml --extra $$extra --constraint deploy/lock/gateway.txt \
			--output-file deploy/lock/$$extra.txt || exit 1; \
	done

# make static       what the pages need from npm, into static/vendor
static:
	@tests/install-tools page

# make wheel        a wheel with the pages in it, in dist/; that of the Python client alone, in dist/client/
wheel: .venv/runtime static
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist/client ./client

# make clean        remove all that these commands made
clean:
	rm -rf .venv node_modules static/vendor build dist htmlcov results screenshots site
	rm -rf .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/pip:
	@tests/install-tools venv
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

.venv/runtime: pyproject.toml .venv/pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/pipeline: pyproject.toml .venv/runtime
	$(BIN)/python -m pip install --quiet --editable '.[pipeline,java]' stomp.py
	@touch $@

.venv/fuzz: pyproject.toml .venv/dev
	$(BIN)/python -m pip install --quiet --group fuzz
	@touch $@

.venv/docs: pyproject.toml .venv/runtime
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

.venv/lock: pyproject.toml .venv/pip
	$(BIN)/python -m pip install --quiet --group lock
	@touch $@

# A folder: other people's clients with their own tests, packed.
.venv/suites: tests/clients/suites.txt .venv/pip
	@rm -rf $@
	$(BIN)/python -m pip download --quiet --no-deps --no-binary :all: --dest $@ --requirement $<
	@touch $@

.venv/dev: pyproject.toml .venv/runtime
	$(BIN)/python -m pip install --quiet --editable '.[pipeline,java,otel,cluster]' --group dev
	@touch $@
