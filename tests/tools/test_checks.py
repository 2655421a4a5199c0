from __future__ import annotations

import pytest

from moorage.tools.checks import recognise

CHECKS = {
    "go test ./...": "test",
    "go vet ./...": "lint",
    "go build": "build",
    "go list ./...": "build",
    "cargo test": "test",
    "cargo check": "typecheck",
    "cargo build --release": "build",
    "cargo clippy": "lint",
    "pytest": "test",
    "pytest -q -k 'a or b'": "test",
    "ruff check .": "lint",
    "mypy src": "typecheck",
    "python -m pytest": "test",
    "python3 -m mypy x": "typecheck",
    "uv run pytest -q": "test",
    "uv run python -m pytest": "test",
    "tsc --noEmit": "typecheck",
    "tsc -p . --noEmit": "typecheck",
    "npm test": "test",
    "npm run lint": "lint",
    "pnpm run build": "build",
    "yarn typecheck": "typecheck",
    "bun run check": "lint",
    "vitest run": "test",
    "jest": "test",
    "mocha": "test",
    "ava": "test",
    "tap": "test",
    "npx vitest run": "test",
    "npx -y jest": "test",
    "npx --no-install tsc --noEmit": "typecheck",
    "make test": "test",
    "make -j4 CC=gcc check lint": "test",
    "make verify": "test",
    "make ci": "test",
    "cd sub && pytest": "test",
    "cd 'a b/c' && make build": "build",
    "A=1 B='x y' pytest": "test",
    "env -u X A=1 pytest": "test",
    "timeout -k 5 60s pytest": "test",
    "nice -n 5 make check": "test",
    "nohup npm test": "test",
    "stdbuf -oL npm test": "test",
    "time -p go vet ./...": "lint",
    "command pytest": "test",
    "exec pytest": "test",
    "timeout 60 env A=b nice pytest": "test",
    "pytest 2>&1": "test",
    "pytest > out.txt 2> err.txt": "test",
}
NO_CHECKS = [
    "",
    "   ",
    "go run .",
    "go",
    "cargo run",
    "python x.py",
    "python -m http.server",
    "uv pip install x",
    "uv run",
    "tsc",
    "tsc --watch",
    "tsc --noEmit --watch",
    "tsc --noEmit -w",
    "tsc --noEmit --build",
    "tsc --noEmit -b",
    "tsc --noEmit --init",
    "tsc --noEmit --generateTrace x",
    "npm install",
    "npm run",
    "npm run test:unit",
    "npx",
    "npx --package x vitest",
    "npx cowsay",
    "npx pytest",
    "make",
    "make test deploy",
    "cd /tmp && pytest",
    "cd ../other && pytest",
    "cd a/../../b && pytest",
    "cd ~ && pytest",
    "cd $X && pytest",
    "cd - && pytest",
    "cd a b && pytest",
    "ls && pytest",
    "pytest; echo done",
    "pytest | tail -5",
    "pytest || true",
    "pytest && echo ok",
    "pytest &",
    "pytest $(files)",
    "pytest `files`",
    "pytest 'open",
    "env -S 'pytest'",
    "env",
    "A=1",
    "timeout 5",
    "echo pytest",
]


@pytest.mark.parametrize(("command", "kind"), CHECKS.items())
def test_checks_are_recognised_with_what_may_stand_before_them(command: str, kind: str) -> None:
    check = recognise(command)
    assert check is not None
    assert check.kind == kind


@pytest.mark.parametrize("command", NO_CHECKS)
def test_what_is_no_plain_check_is_not_recognised(command: str) -> None:
    assert recognise(command) is None


def test_the_folder_of_a_check_is_known() -> None:
    check = recognise("cd a/b && pytest")
    assert check is not None
    assert check.folder == "a/b"


def test_a_package_runner_is_known_with_its_place() -> None:
    command = "CI=1 npx --yes vitest run"
    check = recognise(command)
    assert check is not None
    assert check.runner is not None
    assert check.runner.tool == "vitest"
    assert command[check.runner.start : check.runner.end] == "npx --yes vitest"
