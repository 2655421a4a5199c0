from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.process.managed.hand_over import Wait
from moorage.tools import bash
from moorage.tools.bash import Bash, BashLimits
from moorage.tools.views import ViewLimits

pytestmark = pytest.mark.needs("landlock")

FAILING_GO = """\
#!/bin/sh
echo "=== RUN   TestSum"
echo "    sum_test.go:12: expected 4, got 5"
echo "--- FAIL: TestSum (0.00s)"
i=0; while [ $i -lt "${LINES_OF_NOISE:-0}" ]; do echo "noise number $i"; i=$((i+1)); done
printf 'FAIL\\texample.org/sum\\t0.01s\\n'
exit 1
"""


def content(path: str) -> bytes:
    return Path(path).read_bytes()


# What the model sees.


async def test_stdout_is_followed_by_stderr_and_nothing_more(desk) -> None:
    assert (await desk.bash("echo a; echo b >&2"))[0] == "a\nb"


async def test_a_silent_failure_shows_only_its_exit_code_and_is_no_tool_error(desk) -> None:
    result = await desk.call(command="exit 3")
    assert result.text == "Exit code 3"
    assert result.structured_content["exit_code"] == 3
    assert not result.is_error


async def test_a_silent_success_shows_a_placeholder_and_its_output_is_empty(desk) -> None:
    text, envelope = await desk.bash("true")
    assert text == "(no output)"
    assert envelope["output"] == envelope["stdout"] == envelope["stderr"] == ""


async def test_a_failure_shows_its_output_and_its_exit_code(desk) -> None:
    assert (await desk.bash("echo why >&2; exit 2"))[0] == "why\nExit code 2"


async def test_a_long_output_shows_head_and_summary_and_where_the_rest_is(desk) -> None:
    text, envelope = await desk.bash("seq 200000; echo '12 passed in 3 s'")
    lines = text.split("\n")
    assert lines[:3] == ["1", "2", "3"]
    assert "12 passed in 3 s" in lines
    omitted = envelope["stdout_bytes"] - 12 * 1024
    marker = next(line for line in lines if line.startswith("[..."))
    assert abs(int(marker.split()[1]) - omitted) < 8
    assert lines[-1] == (
        f"Full log: {envelope['full_log_ref']} ({envelope['full_log_bytes']} bytes)"
    )
    assert envelope["truncated"]
    assert envelope["stdout_truncated"]
    assert envelope["stdout_tail_truncated"]


async def test_the_log_is_whole_and_its_hash_and_sections_fit(desk) -> None:
    _, envelope = await desk.bash("seq 50000; seq 60000 >&2; exit 4")
    log = content(envelope["full_log_ref"])
    sections = envelope["full_log_sections"]
    numbers = [b"".join(b"%d\n" % number for number in range(1, end)) for end in (50_001, 60_001)]
    assert log[sections["stdout_start"] : sections["stdout_end"]] == numbers[0]
    assert log[sections["stderr_start"] : sections["stderr_end"]] == numbers[1]
    assert envelope["full_log_sha256"] == hashlib.sha256(log).hexdigest()
    assert envelope["full_log_bytes"] == len(log)
    assert log.startswith(b"command: seq 50000; seq 60000 >&2; exit 4\n")
    assert b"exit code: 4\n" in log[sections["stderr_end"] :]
    assert envelope["full_log_ref"].startswith(f"{desk.own}/tool-results/shell-logs/")


async def test_colours_titles_and_redraws_are_cleaned_from_the_view_alone(desk) -> None:
    command = (
        r"printf '\033[31mred\033[0m\n\033]0;title\007'; "
        r'for i in $(seq 500); do printf "\r%d%%" $((i / 5)); done; echo'
    )
    text, envelope = await desk.bash(command)
    shown, log = text.rsplit("\n", 1)
    assert shown == "red\n100%"
    assert log.startswith("Full log: ")
    assert "\033[31mred" in envelope["stdout"]
    assert b"\r1%" in content(envelope["full_log_ref"])


async def test_a_cut_in_multibyte_text_gives_no_broken_character(desk) -> None:
    for offset in range(4):
        head = "x" * offset
        text, envelope = await desk.bash(f"printf {head}; yes 'äö€𝄞' | head -n 9000 | tr -d '\\n'")
        assert envelope["truncated"]
        for shown in (text, envelope["output"], envelope["stdout"], envelope["stdout_tail"]):
            assert "\ufffd" not in shown


async def test_an_output_that_is_shown_whole_names_its_log_in_the_envelope_alone(desk) -> None:
    text, envelope = await desk.bash("head -c 20000 /dev/zero | tr '\\0' 'x'")
    assert text == "x" * 20_000
    assert envelope["output"] == text
    assert not envelope["truncated"]
    assert envelope["stdout_tail_truncated"]
    assert Path(envelope["full_log_ref"]).name.endswith(".log")


async def test_text_above_the_budget_is_clipped_by_lines_and_stdout_first(desk) -> None:
    desk.use(BashLimits(view=ViewLimits(budget_tokens=100)))
    text, envelope = await desk.bash("seq 1000; echo from stderr >&2")
    lines = text.split("\n")
    assert lines[0] == "1"
    assert "1000" in lines
    assert "from stderr" in lines
    clipped = next(line for line in lines if line.startswith("[..."))
    assert f"lines omitted or shortened; full log: {envelope['full_log_ref']}" in clipped
    assert not envelope["truncated"]


async def test_small_output_creates_no_file(desk) -> None:
    await desk.bash("echo small; exit 1")
    assert desk.logs() == []
    assert not (desk.own / "tool-results").exists()


async def test_a_log_that_cannot_be_kept_is_a_reason_and_the_result_stands(desk) -> None:
    (desk.own / "tool-results").touch()
    text, envelope = await desk.bash("seq 100000; exit 5")
    assert envelope["exit_code"] == 5
    assert envelope["stdout_bytes"] == 588_895
    assert envelope["full_log_error"] == "the full log could not be written: Not a directory"
    assert text.endswith(f"Full log unavailable: {envelope['full_log_error']}\nExit code 5")


# Arguments.


@pytest.mark.parametrize("arguments", [{}, {"command": ""}, {"command": " \n\t"}])
async def test_a_blank_command_is_an_error(desk, arguments: dict[str, str]) -> None:
    with pytest.raises(InvalidArguments, match="command is blank"):
        await desk.call(**arguments)


@pytest.mark.parametrize(
    ("asked", "given"),
    [(0, 300), (-1, 300), (None, 300), (99_999, 3600), (1, 1), (3600, 3600), (3601, 3600)],
)
async def test_the_timeout_is_clamped(
    desk, monkeypatch: pytest.MonkeyPatch, asked: int | None, given: int
) -> None:
    seen = []

    async def run(*_: object, wait: Wait, **__: object) -> None:
        seen.append(wait.timeout_seconds)
        raise InvalidArguments("seen enough")

    monkeypatch.setattr(bash, "run_foreground", run)
    with pytest.raises(InvalidArguments, match="seen enough"):
        await desk.call(command="true", timeout_seconds=asked)
    assert seen == [given]


@pytest.mark.parametrize("wrong", ["5", 1.5, True, []])
async def test_a_timeout_of_another_type_is_an_argument_error(desk, wrong: object) -> None:
    with pytest.raises(InvalidArguments, match="timeout_seconds"):
        await desk.call(command="true", timeout_seconds=wrong)


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ("start_background", "is a name of an earlier design.*run_in_background: true"),
        ("read_background", "is a name of an earlier design.*Use the action read"),
        ("find_background", "is a name of an earlier design.*run, read, write, stop, list, update"),
        ("restart", "is no action.*run, read, write, stop, list, update"),
        ("", "is no action"),
    ],
)
async def test_other_actions_are_errors_that_name_what_there_is(
    desk, action: str, why: str
) -> None:
    with pytest.raises(InvalidArguments, match=why):
        await desk.call(command="touch ran", action=action)
    assert not (desk.path / "ran").exists()


async def test_the_action_run_may_be_named(desk) -> None:
    assert (await desk.bash("echo hi", action="run"))[0] == "hi"


async def test_nothing_of_one_call_reaches_the_next(desk) -> None:
    await desk.bash("cd /tmp; export LEFT=over; alias ll=ls; left() { echo x; }")
    text, _ = await desk.bash('pwd; echo "<$LEFT>"; type left ll')
    assert text.startswith(f"{desk.path}\n<>\n")
    assert text.endswith("Exit code 1")


async def test_a_command_runs_in_the_folder_that_is_asked_for(desk) -> None:
    (desk.path / "sub").mkdir()
    assert (await desk.bash("pwd", cwd="sub"))[0] == f"{desk.path}/sub"
    assert (await desk.bash("pwd", cwd=str(desk.path / "sub")))[0] == f"{desk.path}/sub"
    (desk.path / "link").symlink_to("sub")
    assert (await desk.bash("pwd -P", cwd="link"))[0] == f"{desk.path}/sub"


@pytest.mark.parametrize(
    ("cwd", "why"),
    [
        ("missing", "does not exist"),
        ("file", "is not a folder"),
        ("x" * 5000, "cannot be used: File name too long"),
        ("a\0b", "NUL"),
    ],
)
async def test_a_folder_that_is_none_is_an_argument_error_and_nothing_runs(
    desk, cwd: str, why: str
) -> None:
    (desk.path / "file").touch()
    with pytest.raises(InvalidArguments, match=why):
        await desk.call(command="touch ../ran ran", cwd=cwd)
    assert not (desk.path / "ran").exists()


@pytest.mark.parametrize("cwd", ["..", "../outside", "/", "escape", "escape/deeper", "sub/../.."])
async def test_a_folder_outside_is_refused_and_nothing_runs(desk, cwd: str) -> None:
    (desk.path / "sub").mkdir()
    (desk.outside / "deeper").mkdir()
    (desk.path / "escape").symlink_to(desk.outside)
    with pytest.raises(Refused) as refusal:
        await desk.call(command="touch ran", cwd=cwd)
    assert refusal.value.reason == "boundary_denied"
    assert not (desk.outside / "ran").exists()


async def test_purpose_is_shown_nowhere_and_scope_changes_nothing_that_runs(desk) -> None:
    result = await desk.call(command="echo $#", purpose="an-inner-reason", scope="full")
    plain = await desk.call(command="echo $#")
    assert result.text == plain.text
    assert "an-inner-reason" not in repr(result)
    assert "verification" not in result.structured_content


async def test_standard_input_is_empty_unless_there_is_some(desk) -> None:
    assert (await desk.bash("cat; read -r x; echo $?"))[0] == "1"
    desk.input_fd = os.memfd_create("input")
    try:
        os.write(desk.input_fd, b"some \xff input")
        os.lseek(desk.input_fd, 0, os.SEEK_SET)
        _, envelope = await desk.bash("cat")
    finally:
        os.close(desk.input_fd)
    assert envelope["stdout"] == "some \ufffd input"


@pytest.mark.parametrize("command", ["touch ran; echo a\0b", "touch ran; echo \ud800"])
async def test_a_command_that_no_shell_can_take_is_an_argument_error(desk, command: str) -> None:
    with pytest.raises(InvalidArguments):
        await desk.call(command=command)
    assert not (desk.path / "ran").exists()


@pytest.mark.parametrize("length", [200_000, 3_000_000])
async def test_a_command_longer_than_the_system_takes_is_told_with_the_way_out(
    desk, length: int
) -> None:
    with pytest.raises(InvalidArguments, match="longer than the system takes") as error:
        await desk.call(command=f"touch ran; echo {'x' * length}")
    assert "Write a long command to a file" in str(error.value)
    assert "as input" in str(error.value)
    assert not (desk.path / "ran").exists()
    assert (await desk.bash("echo works"))[0] == "works"


async def test_a_missing_workspace_is_told_as_such_and_nothing_runs(desk) -> None:
    desk.path.rename(desk.outside / "elsewhere")
    for cwd in ("", "sub"):
        with pytest.raises(InvalidArguments, match="itself is missing") as error:
            await desk.call(command="touch ran", cwd=cwd)
        assert str(desk.path) in str(error.value)
        assert "leave cwd out" not in str(error.value)
    assert not (desk.outside / "elsewhere" / "ran").exists()


async def test_a_command_that_is_no_command_is_a_result(desk) -> None:
    text, envelope = await desk.bash("no-such-program-anywhere")
    assert envelope["exit_code"] == 127
    assert text.endswith("command not found\nExit code 127")


# Variables.


@pytest.mark.needs("git")
async def test_git_waits_for_no_pager_editor_or_prompt(desk) -> None:
    identity = "git config user.email a@example.org; git config user.name a"
    await desk.bash(f"git init -q .; {identity}; touch x; git add x; git commit -qm 'first one'")
    text, _ = await desk.bash("git log; git log --oneline | cat")
    assert "first one" in text
    text, envelope = await desk.bash("touch y; git add y; git commit")
    assert envelope["exit_code"] == 1
    assert "empty commit message" in text
    _, envelope = await desk.bash("git rebase -i --root")
    assert envelope["outcome"] == "exited"


async def test_an_inherited_goroot_is_absent(desk) -> None:
    desk.variables |= {"GOROOT": "/build/go", "GoRoot": "/build/go"}
    assert (await desk.bash("env | grep -ci '^goroot='"))[0] == "0\nExit code 1"


async def test_commands_have_a_private_temporary_folder(desk) -> None:
    text, _ = await desk.bash("f=$(mktemp) && echo x > $f && dirname $f")
    assert text == str(desk.temporary)


# Verification.


async def test_a_failing_check_with_short_output_shows_no_summary(desk) -> None:
    desk.program("go", FAILING_GO)
    text, envelope = await desk.bash("go test ./...", scope="targeted")
    assert "Failure summary" not in text
    verification = envelope["verification"]
    assert (verification["kind"], verification["check"]) == ("verification", "test")
    assert (verification["passed"], verification["scope"]) == (False, "targeted")
    assert len(verification["command_hash"]) == 12
    summary = verification["failure_summary"]
    assert summary["failing_tests"] == ["TestSum", "example.org/sum"]
    assert summary["locations"][0] == {
        "path": "sum_test.go",
        "line": 12,
        "column": 0,
        "text": "sum_test.go:12: expected 4, got 5",
    }
    assert envelope["workspace_revision"].startswith("fs:worktree:")
    assert verification["workspace_revision"] == envelope["workspace_revision"]


async def test_a_failing_check_with_cut_output_shows_its_summary(desk) -> None:
    desk.program("go", FAILING_GO)
    text, _ = await desk.bash("LINES_OF_NOISE=5000 go test ./...")
    assert "Exit code 1\nFailure summary:\nFailing: TestSum, example.org/sum\n" in text
    assert text.endswith("sum_test.go:12: sum_test.go:12: expected 4, got 5")
    # Nothing of it is put before, into or after what comes next.
    assert (await desk.bash("echo next"))[0] == "next"


async def test_repeating_a_failing_check_is_counted_and_never_blocked(desk) -> None:
    desk.program("go", FAILING_GO)
    counts = []
    for _ in range(3):
        _, envelope = await desk.bash("go test ./...")
        counts.append(envelope["verification"]["repeat_guard"]["previous_failed_runs"])
    assert counts == [0, 1, 2]


async def test_a_passing_check_says_so_and_has_no_summary(desk) -> None:
    desk.program("go", "#!/bin/sh\necho ok\n")
    text, envelope = await desk.bash("go vet ./...")
    assert text == "ok"
    assert envelope["verification"]["passed"]
    assert "failure_summary" not in envelope["verification"]


async def test_a_check_through_npx_runs_the_projects_own_copy(desk) -> None:
    binaries = desk.path / "app" / "node_modules" / ".bin"
    binaries.mkdir(parents=True)
    (binaries / "vitest").write_text('#!/bin/sh\necho "local $@"\n')
    (binaries / "vitest").chmod(0o755)
    text, envelope = await desk.bash("npx --yes vitest run", cwd="app")
    assert text == "local run\nRan: ./node_modules/.bin/vitest run"
    assert envelope["requested_command"] == "npx --yes vitest run"
    assert envelope["resolved_command"] == "./node_modules/.bin/vitest run"
    assert (await desk.bash("cd app && npx vitest -t x"))[0].startswith("local -t x\nRan: cd app")


async def test_a_check_through_npx_finds_the_copy_of_the_workspace(desk) -> None:
    binaries = desk.path / "node_modules" / ".bin"
    binaries.mkdir(parents=True)
    (binaries / "jest").write_text("#!/bin/sh\necho from the top\n")
    (binaries / "jest").chmod(0o755)
    (desk.path / "packages").mkdir()
    text, _ = await desk.bash("npx jest", cwd="packages")
    assert text.startswith("from the top\n")


async def test_a_check_through_npx_without_a_local_copy_does_not_run(desk) -> None:
    desk.program("npx", "#!/bin/sh\ntouch ran\n")
    result = await desk.call(command="npx vitest")
    assert result.is_error
    assert result.structured_content["error_kind"] == "local_test_runner_missing"
    assert "nothing ran" in result.text
    assert not (desk.path / "ran").exists()


# Secrets.


@pytest.mark.parametrize("mode", [PermissionMode.STANDARD, PermissionMode.UNCONFINED])
async def test_a_token_is_masked_in_view_envelope_and_log(desk, mode: PermissionMode) -> None:
    secret = "hunter2-hunter2"  # noqa: S105 - what the test looks for
    result = await desk.call(
        command=f"for i in $(seq 9000); do echo token={secret}; done; echo sk-{secret} >&2",
        mode=mode,
    )
    assert secret not in repr(result)
    assert "token=[REDACTED]" in result.text
    log = content(result.structured_content["full_log_ref"])
    assert secret.encode() not in log
    assert log.count(b"token=[REDACTED]\n") == 9000
    assert result.structured_content["command"].startswith("for i in $(seq 9000)")


async def test_a_secret_across_the_border_of_an_excerpt_is_masked(desk) -> None:
    for before in (4090, 4095):
        head = f"head -c {before} /dev/zero | tr '\\0' '.'"
        _, envelope = await desk.bash(f"{head}; echo ' password=hunter2-hunter2'; seq 20000")
        for field in ("output", "stdout", "stdout_tail"):
            assert "hunter2" not in envelope[field]


def test_the_tool_that_the_catalogue_loads_is_this_one() -> None:
    assert isinstance(bash.TOOL, Bash)
    assert bash.TOOL.spec.name == "bash"
