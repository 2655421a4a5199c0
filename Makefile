# Each target does the set-up it needs. All are safe to repeat.
.PHONY: help setup demo test bench docs format lock

help:
	@echo 'make demo     set up, then show the main job: a confined workspace at work'
	@echo 'make test     set up, then run every gate and every test'
	@echo 'make bench    set up, then measure and print the table of benchmarks'
	@echo 'make docs     set up, then build the documentation into docs/_build/html'
	@echo 'make format   bring the code into its form'
	@echo 'make lock     resolve the dependencies anew into requirements.lock'

setup:
	@scripts/set-up

demo: setup
	@.venv/bin/moorage demo

test: setup
	@scripts/install-test-services
	@.venv/bin/python scripts/gates.py

bench: setup
	@.venv/bin/python -m benchmarks

docs: setup
	@.venv/bin/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet docs docs/_build/html
	@echo 'docs/_build/html/index.html'

format: setup
	@.venv/bin/ruff check --fix --quiet
	@.venv/bin/ruff format

# No index address or host name may stand in the lock: it must serve every machine.
lock: setup
	@.venv/bin/python -m uv pip compile --quiet --upgrade --universal --all-extras --group dev \
	  --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' \
	  --output-file requirements.lock pyproject.toml
