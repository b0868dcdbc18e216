# Everything a person or a machine does with this repo. `make` alone lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
BIN := .venv/bin
JOBS ?= 3
ifndef SEED
SEED := $(shell echo $$RANDOM$$RANDOM)
endif
export PYTHON
# Tests start hundreds of processes: each would compile all modules anew, a second of work.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup postgres kafka hadoop chromium clients demo gates quick test coverage golden bench bench-interpret bench-evaluate bench-append bench-metadata bench-prune bench-latemat bench-peek bench-decode bench-spark bench-ingest bench-restart bench-growth bench-stream bench-retractions bench-sources bench-tpch bench-cold bench-commits bench-spill prove docs site clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 18

.venv/stamp: pyproject.toml constraints.txt .ci/venv
	@.ci/venv
	@touch $@

setup: .venv/stamp ## a .venv with everything at the versions of constraints.txt (PYTHON=… to choose the interpreter)

postgres: ## PostgreSQL for the tests that compare with it (Debian's package, if root)
	@.ci/postgres

kafka: setup ## Apache Kafka's jars for the tests that run a broker (by mvn, into .venv/kafka)
	@.ci/kafka

hadoop: setup kafka ## Hadoop's classes for S3, for the test in which Spark reads it (by mvn, into .venv/hadoop)
	@.ci/hadoop

chromium: ## a browser for the tests of the pages (Debian's package, if root)
	@.ci/chromium

clients: setup ## clients of other languages for the tests of the PostgreSQL port (by mvn, npm, go and pip, into .venv/clients)
	@.ci/clients

demo: setup ## the main job: raw events through two sources on Spark into a lake, and questions (ROWS=… for more)
	@$(BIN)/python -m tidegate.cli.demo.run $(if $(ROWS),--rows $(ROWS))

gates: setup ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports

QUICK := tests/gates tests/unit tests/golden tests/test_errors.py tests/test_gates.py tests/test_public_names.py

quick: gates ## the gates and the tests that need no server, in under three minutes on two cores: what to run while you work
	HYPOTHESIS_PROFILE=brief $(BIN)/pytest -W error -q -n 2 --dist worksteal -m "not slow and not long" $(QUICK)

coverage: setup ## the share of src/ that the tests of `make quick` run, with a minimum (report in .coverage)
	HYPOTHESIS_PROFILE=brief $(BIN)/pytest -q -n 2 --dist worksteal -m "not slow and not long" --cov=tidegate --cov-report=term:skip-covered $(QUICK)

test: gates postgres kafka hadoop chromium clients ## every gate, then every test (JOBS=3 at once: some of them wait for servers)
	$(BIN)/pytest -W error -n $(JOBS) --dist worksteal

golden: setup ## rewrites the outputs in tests/golden/*.txt; read the diff before you commit it
	UPDATE_GOLDEN=1 $(BIN)/pytest -W error -q -p no:xdist tests/golden

bench: bench-interpret bench-evaluate bench-append bench-metadata bench-prune bench-latemat bench-peek bench-decode bench-spark bench-ingest bench-restart bench-growth bench-stream bench-retractions bench-sources bench-tpch bench-cold bench-commits bench-spill ## all benchmarks

bench-interpret: setup ## pruning 10,000 to 1,000,000 parts, beside deltalake
	$(BIN)/python bench/interpret.py

bench-append: setup ## what collecting statistics costs beside writing the part
	PYTHONPATH=. $(BIN)/python bench/append.py

bench-metadata: setup ## a million parts: opening, appending, pruning, memory, beside deltalake
	PYTHONPATH=. $(BIN)/python bench/metadata.py

bench-evaluate: setup ## rows/s per kernel class, beside pyarrow and DuckDB
	$(BIN)/python bench/evaluate.py

bench-prune: setup ## 29 filters over 20 parts: what is opened and read, beside DuckDB, Polars, DataFusion, deltalake, pyarrow
	PYTHONPATH=. $(BIN)/python bench/prune.py

bench-latemat: setup ## few rows of wide parts: CPU time, late materialisation on and off, beside DuckDB, Polars, DataFusion
	PYTHONPATH=. $(BIN)/python -m bench.latemat

bench-peek: setup ## LIMIT 10 on 10 to 100,000 parts, files and S3, beside Spark
	PYTHONPATH=. $(BIN)/python -m bench.peek

bench-decode: setup ## formats that decode only what is demanded, beside others
	PYTHONPATH=. $(BIN)/python -m bench.decode

bench-spark: setup ## reading and writing on Spark, beside plain Parquet
	PYTHONPATH=. $(BIN)/python -m bench.spark
	PYTHONPATH=. $(BIN)/python -m bench.spark_write

bench-ingest: setup kafka ## files and topics through a transform, beside Spark's own reader and a plain loop
	PYTHONPATH=. $(BIN)/python -m bench.ingest
	PYTHONPATH=. $(BIN)/python -m bench.ingest_kafka

bench-restart: setup ## restart and first read of a 30-day window, with 20 times the history behind it
	PYTHONPATH=. $(BIN)/python -m bench.restart

bench-stream: setup ## 800 MB taken out by every door: the memory and the time, beside DuckDB and pyarrow
	PYTHONPATH=. $(BIN)/python -m bench.stream

bench-growth: setup ## 1,250 to 10,000 parts: how maintenance, opening, planning and status grow (PARTS=… for more)
	PYTHONPATH=. $(BIN)/python -m bench.growth $(if $(PARTS),--parts $(PARTS))

bench-retractions: setup hadoop ## every question after UPDATE and DELETE of 1 row to 50 %, files, S3 and Spark, beside Delta and DuckDB (ARGS=--quick for a short run)
	PYTHONPATH=. $(BIN)/python -m bench.retractions $(or $(ARGS),--keep)

bench-sources: setup postgres ## UPSERT of 1 % into 10 M rows, and a PostgreSQL source under UPDATEs for ten minutes: the cost, and that of reading
	PYTHONPATH=. $(BIN)/python -m bench.retractions.sources upsert --rows 10000000
	PYTHONPATH=. $(BIN)/python -m bench.retractions.sources postgres

bench-tpch: setup ## TPC-H at scale 1: the embedded engine beside DuckDB on the same files, and beside Spark (ARGS=… for others)
	PYTHONPATH=. $(BIN)/python -m bench.tpch $(ARGS)

bench-commits: setup postgres ## 3,000 commits of ten rows, by one writer and by eight: the cost, what is left, and reading it, beside PostgreSQL, SQLite, deltalake
	PYTHONPATH=. $(BIN)/python -m bench.commits $(ARGS)

bench-cold: setup ## a fresh process: a join of two small tables beside LIMIT 10
	PYTHONPATH=. $(BIN)/python -m bench.cold

bench-spill: setup ## queries over 10 GB of rows while the embedded engine may hold 1 GiB: outcome, time, memory, bytes on disk
	PYTHONPATH=. $(BIN)/python -m bench.spill $(ARGS)

prove: export PYTEST_TIMEOUT := 7200
prove: setup postgres kafka ## laws, golden files, reads, sources, simulation and kills with many more random cases (SEED=… to repeat a run)
	@echo "seed $(SEED): repeat with make prove SEED=$(SEED)"
	HYPOTHESIS_PROFILE=prove $(BIN)/pytest -W error -n $(JOBS) --hypothesis-seed=$(SEED) $(wildcard tests/laws) tests/golden
	TIDEGATE_SIMULATIONS=400 TIDEGATE_PLANTED=all TIDEGATE_SPOILT_S=180 TIDEGATE_KILLS=200 TIDEGATE_SEED=$(SEED) $(BIN)/pytest -W error -n $(JOBS) --hypothesis-seed=$(SEED) tests/simulation
	TIDEGATE_READS=30 TIDEGATE_SEED=$(SEED) $(BIN)/pytest -W error -n $(JOBS) tests/reads/test_differential.py
	TIDEGATE_SPARK_LAWS=3 TIDEGATE_GENERAL=1 TIDEGATE_STREAM_KILLS=8 $(BIN)/pytest -W error -p no:xdist tests/spark/test_catalyst.py tests/spark/test_expression.py tests/spark/test_sql_differential.py tests/spark/test_stream.py
	TIDEGATE_UPSERTS=300 TIDEGATE_CHANGES=100 TIDEGATE_EXPIRY=20 TIDEGATE_POSTGRES_MOMENTS=100 TIDEGATE_KAFKA_STRESS_S=60 TIDEGATE_SEED=$(SEED) $(BIN)/pytest -W error -n $(JOBS) tests/ingest
	TIDEGATE_INGEST_KILLS=20 TIDEGATE_SEED=$(SEED) $(BIN)/pytest -W error -p no:xdist tests/spark/test_ingest_kills.py
	TIDEGATE_CLUSTER_ROWS=20000000 $(BIN)/pytest -W error -p no:xdist tests/spark/test_cluster.py
	@echo "seed $(SEED)"

docs: setup ## docs/sql.md from the registry of functions, the tables of docs/tour.md from docstrings, the pictures of docs/pruning.md and docs/concepts.md
	@mkdir -p docs
	PYTHONPATH=. $(BIN)/python docs/generate.py > docs/sql.md.new
	@mv docs/sql.md.new docs/sql.md
	$(BIN)/python docs/tour_tables.py
	PYTHONPATH=. $(BIN)/python docs/pruning_pictures.py
	PYTHONPATH=. $(BIN)/python docs/concepts_pictures.py

site: setup ## docs/ as a web site with a search, in build/site (installs mkdocs-material into .venv/site)
	@.ci/site

clean: ## removes .venv and every cache
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
