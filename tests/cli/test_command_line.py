from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import click
import pytest

from moorage.cli import command_line as root_module
from moorage.cli.command_line import ENTRIES, RootGroup, report, root
from moorage.errors import ConfigError, Refused

SCREEN_LINES, SCREEN_COLUMNS = 23, 80  # a line is left for the prompt


def run_python(program: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    clean = {key: value for key, value in os.environ.items() if key != "MOORAGE_DEBUG"}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=clean | variables,
    ) as child:
        out, err = child.communicate(timeout=30)
    return subprocess.CompletedProcess([], child.returncode, out, err)


def test_the_help_fits_one_screen_and_ends_with_the_next_step(command_line: Any) -> None:
    ended = command_line("--help")
    lines = ended.out.decode().splitlines()
    assert ended.code == 0
    assert len(lines) <= SCREEN_LINES
    assert max(len(line) for line in lines) <= SCREEN_COLUMNS
    assert len([line for line in lines if line.startswith("  moorage ")]) == 3
    assert lines[-1].startswith("Next: ")


def test_no_command_at_all_shows_the_help_as_a_usage_error(command_line: Any) -> None:
    ended = command_line()
    assert ended.code == 2
    assert ended.out == b""
    assert ended.err.startswith(b"Usage: moorage COMMAND")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_command_of_the_help_exists_and_has_help_with_examples(
    command_line: Any, entry: Any
) -> None:
    command = root.get_command(click.Context(root), entry.name)
    assert isinstance(command, click.Command)
    if entry.name not in {"worker", "demo"}:
        ended = command_line(entry.name, "--help")
        assert ended.code == 0
        assert f"moorage {entry.name}" in ended.out.decode()
        assert "Examples:" in ended.out.decode()


def test_the_help_imports_no_command_and_none_of_the_heavy_libraries() -> None:
    program = (
        "import sys; from moorage.cli.command_line import run_command_line;"
        "run_command_line(['--help']);"
        "loaded = {'anyio', 'msgspec', 'rich', 'mcp', 'moorage.cli.run'} & set(sys.modules);"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    ended = run_python(program)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['click'] = None; from moorage.cli.__main__ import main; main()"
    )
    ended = run_python(program)
    assert ended.returncode == 125
    assert ended.stdout == b""
    assert ended.stderr == (
        b"moorage: the command line needs click; install it with: pip install 'moorage[cli]'\n"
    )


def test_the_version_is_one_line(command_line: Any) -> None:
    ended = command_line("--version")
    assert ended.code == 0
    assert ended.out.startswith(b"moorage ")
    assert ended.out.count(b"\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("rnu",), "There is no command 'rnu'; did you mean run? See moorage --help."),
        (("zzzzz",), "There is no command 'zzzzz'; there are run, start, ps,"),
        (("--hlep",), "No such option '--hlep'. Did you mean '--help'? See moorage --help."),
        (("session", "lst"), "See moorage session --help."),
        (("env", "list", "--al"), "See moorage env list --help."),
        (("session", "show"), "Missing argument 'ID'. See moorage session show --help."),
        (("completion", "csh"), "'csh' is not one of 'bash', 'zsh', 'fish'."),
        (("mcp", "--http", "8765"), "'8765' is not HOST:PORT, such as 127.0.0.1:8765."),
    ],
)
def test_a_wrong_command_line_exits_with_2_and_one_sentence(
    command_line: Any, arguments: tuple[str, ...], sentence: str
) -> None:
    ended = command_line(*arguments)
    assert ended.code == 2
    assert sentence in ended.err.decode()
    assert ended.err.count(b"\n") == 1


def test_a_usage_error_is_json_when_json_was_asked_for(command_line: Any) -> None:
    ended = command_line("env", "list", "--json", "--nope")
    assert ended.code == 2
    assert ended.err == b""
    assert ended.document["error"]["code"] == "usage_error"
    assert ended.document["error"]["hint"] == "See moorage env list --help."


def test_an_unforeseen_failure_shows_no_traceback(
    command_line: Any, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.error = RuntimeError("surprise")
    ended = command_line("tool", "bash", "command=x")
    assert ended.code == 125
    assert ended.err == (
        b"moorage: Moorage itself failed: RuntimeError: surprise. "
        b"Set MOORAGE_DEBUG=1 to see where.\n"
    )


def test_the_traceback_is_there_when_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOORAGE_DEBUG", "1")
    assert report(Refused("no."), as_json=False) == 126
    assert "moorage.errors.Refused: no." in capsys.readouterr().err


def test_the_log_goes_to_standard_error_when_it_is_asked_for() -> None:
    program = (
        "import logging; from moorage.cli.command_line import run_command_line;"
        "run_command_line(['--version']); logging.getLogger('moorage.x').info('seen')"
    )
    assert b"seen" in run_python(program, MOORAGE_DEBUG="1").stderr
    assert run_python(program).stderr == b""


def test_several_failures_are_all_told(capsys: pytest.CaptureFixture[str]) -> None:
    group = ExceptionGroup("both", [ConfigError("one.", path="a.b"), Refused("two.")])
    assert report(group, as_json=False) == 126
    assert capsys.readouterr().err == "moorage: a.b: one.\nmoorage: two.\n"


def test_a_file_that_cannot_be_had_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    error = PermissionError(13, "Permission denied", "/etc/shadow")
    assert report(error, as_json=False) == 125
    assert capsys.readouterr().err == "moorage: /etc/shadow: Permission denied.\n"


def test_an_error_cannot_write_control_characters_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report(Refused("bad \x1b]0;title\x07 name."), as_json=False)
    assert "\x1b" not in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = "from moorage.cli.__main__ import main; import sys; sys.argv[1:] = ['tool']; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE
    ) as child:
        os.close(writer)
        _, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (141, b"")


def test_commands_complete_without_importing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} was imported")

    monkeypatch.setattr(root_module.importlib, "import_module", refuse)
    group = RootGroup("moorage")
    completed = group.shell_complete(click.Context(group), "se")
    assert [(item.value, item.help) for item in completed] == [
        ("session", "List, show, change and remove saved sessions")
    ]


def test_the_worker_command_becomes_the_worker(
    command_line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, argv: became.append([path, *argv]))
    assert command_line("worker", "--state", "/s", "--help").code == 0
    python = sys.executable
    assert became == [[python, python, "-P", "-m", "moorage.worker", "--state", "/s", "--help"]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_names_the_program(command_line: Any, shell: str) -> None:
    ended = command_line("completion", shell)
    assert ended.code == 0
    assert f"_MOORAGE_COMPLETE={shell}_complete" in ended.out.decode()


def complete(words: str, current: int) -> list[str]:
    program = "from moorage.cli.__main__ import main; main()"
    ended = run_python(
        program, _MOORAGE_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(current)
    )
    assert ended.stderr == b""
    return [line.partition(",")[2] for line in ended.stdout.decode().splitlines() if line]


def test_a_shell_completes_commands_tools_modes_and_environments(home: Any) -> None:
    profiles = '{"execution_environments": {"profiles": {"lab": {"backend": "local"}}}}'
    (home / "config.json").write_text(profiles)
    assert complete("moorage do", 1) == ["doctor"]
    assert complete("moorage tool re", 2) == ["read_file"]
    assert complete("moorage run --mode re", 3) == ["read_only"]
    assert complete("moorage run --env la", 3) == ["lab"]
    sessions = home / "state" / "sessions" / "s-1"
    sessions.mkdir(parents=True)
    selection = {
        "id": "s-1",
        "environment": "local",
        "workspace": "/w",
        "mode": "standard",
        "created_at": "2026-11-30T12:00:00Z",
    }
    (sessions / "selection.json").write_text(json.dumps(selection))
    assert complete("moorage session show s-", 3) == ["s-1"]
    assert complete("moorage nope s-", 2) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "--", "ls", "caf\udce9"), 125),
        (("run", "-c", "ls caf\udce9"), 125),
        (("run", "-C", "caf\udce9", "--", "ls"), 125),
        (("run", "-w", "caf\udce9", "--", "ls"), 125),
        (("tool", "read_file", "path=caf\udce9"), 2),
        (("session", "show", "caf\udce9"), 2),
    ],
)
def test_bytes_that_are_no_text_are_refused_before_anything_starts(
    command_line: Any, session: Any, arguments: tuple[str, ...], code: int
) -> None:
    ended = command_line(*arguments)
    assert ended.code == code
    assert rb"caf\xe9' is not UTF-8 text" in ended.err
    assert ended.err.count(b"\n") == 1
    assert session.asked == []
    assert session.opened_with == {}
