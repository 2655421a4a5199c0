"""Commands: what they are given, what they print, how they end, and that they can be stopped."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import anyio

from moorage.errors import ConfigError, InvalidArguments
from moorage.host.session import Session
from moorage.testing.conformance.place import Place, appears
from moorage.testing.conformance.registry import check
from moorage.testing.conformance.seeing import fails, holds, nothing_there, same

MEGABYTES = 5 * 1024 * 1024

STUBBORN_SECONDS = 20.0
"""For what ignores the polite signal: it is killed after a grace of the backend's choice."""


@check("commands", "commands")
async def streams_and_exit_code_are_told_apart(place: Place) -> None:
    """Output, complaints and exit code arrive as what they are."""
    async with place.session() as session:
        ran = await session.run("echo out; echo err >&2; exit 3")
        same((ran.stdout, ran.stderr, ran.exit_code), ("out\n", "err\n", 3), "the result")
        same((ran.outcome, ran.stdout_bytes, ran.stderr_bytes), ("exited", 4, 4), "the result")


@check("commands", "commands")
async def arguments_arrive_as_they_are(place: Place) -> None:
    """Every character that an argument can hold reaches the program: blanks, quotes, controls."""
    every = "".join(map(chr, range(1, 256))) + "日本🦀"
    async with place.session() as session:
        ran = await session.run(["printf", "%s|", every, "", "two words", "$HOME"])
        same(ran.stdout_data, f"{every}||two words|$HOME|".encode(), "the arguments")


@check("commands", "commands")
async def a_long_command_line_arrives(place: Place) -> None:
    """A command of 100 kB is run whole."""
    text = "x" * 100_000
    async with place.session() as session:
        ran = await session.run(f"printf %s {text} | wc -c")
        same(ran.stdout.strip(), "100000", "the length of the argument")


@check("commands", "commands")
async def a_command_runs_in_the_folder_it_is_told(place: Place) -> None:
    """``cwd`` is a folder of the workspace; without it, commands start in the root."""
    async with place.session() as session:
        await session.write_file("folder/a.txt", "x\n")
        same((await session.run("cat a.txt", cwd="folder")).stdout, "x\n", "in the folder")
        same((await session.run("cat folder/a.txt")).stdout, "x\n", "in the root")


@check("commands", "commands")
async def the_workspace_is_where_it_is_said_to_be(place: Place) -> None:
    """``session.workspace`` is the folder in which commands start."""
    async with place.session() as session:
        ran = await session.run("pwd -P")
        same(session.workspace, ran.stdout.rstrip("\n"), "the workspace")


@check("commands", "commands")
async def a_blank_command_is_refused(place: Place) -> None:
    """A command of blanks is an error, and not a success."""
    async with place.session() as session:
        with fails(InvalidArguments, what="a blank command"):
            await session.run("  \n")


@check("commands", "commands")
async def a_folder_that_is_missing_runs_nothing(place: Place) -> None:
    """A command for a folder that is not there does not run elsewhere."""
    async with place.session() as session:
        with fails(InvalidArguments, what="cwd that is missing"):
            await session.run("echo x > made", cwd="nowhere")
        await nothing_there(session, "made", "nowhere")


@check("commands", "commands")
async def an_unknown_program_is_told(place: Place) -> None:
    """A program that is not there ends with 127 and a complaint."""
    async with place.session() as session:
        ran = await session.run("moorage-no-such-program")
        same((ran.outcome, ran.exit_code), ("exited", 127), "the result")
        holds("not found" in ran.stderr, f"the complaint does not say so: {ran.stderr}")


@check("commands", "commands")
async def commands_and_tools_see_the_same_files(place: Place) -> None:
    """What a tool writes a command reads, and the other way round."""
    async with place.session() as session:
        await session.write_file("a.txt", "by a tool\n")
        same((await session.run("cat a.txt")).stdout, "by a tool\n", "what the command sees")
        await session.run("echo by a command > b.txt")
        same((await session.read_file("b.txt")).text, "by a command\n", "what the tool sees")


@check("commands", "commands")
async def tools_and_commands_are_the_same_user(place: Place) -> None:
    """A file of the tools belongs to the user that commands run as."""
    async with place.session() as session:
        await session.write_file("a.txt", "x")
        ran = await session.run("test -O a.txt && echo mine")
        same(ran.stdout, "mine\n", "the owner of a file of the tools")


@check("commands", "commands")
async def nothing_of_a_command_is_left_for_the_next(place: Place) -> None:
    """Folder and variables of one command are not those of the next."""
    async with place.session() as session:
        await session.run("mkdir folder; cd folder; export LEFT=over")
        ran = await session.run('echo "${LEFT:-nothing}"; ls')
        same(ran.stdout, "nothing\nfolder\n", "the next command")


@check("commands", "commands")
async def commands_overlap_and_are_not_mixed_up(place: Place) -> None:
    """Eight commands that wait for each other run at once, and each gets its own output."""
    async with place.session() as session:
        outputs: dict[int, str] = {}

        async def one(number: int) -> None:
            wait = "until test -e file7 && test -e file0; do sleep 0.02; done"
            outputs[number] = (await session.run(f": > file{number}; {wait}; echo {number}")).stdout

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(one, number)
        same(outputs, {number: f"{number}\n" for number in range(8)}, "the outputs")


@check("commands", "commands")
async def much_output_is_counted_to_the_byte(place: Place) -> None:
    """Of 5 MiB of output the count is true, and what is left out is said."""
    async with place.session() as session:
        ran = await session.run(f"yes line | head -c {MEGABYTES}")
        same((ran.exit_code, ran.stdout_bytes), (0, MEGABYTES), "the count")
        holds(
            ran.stdout_truncated == (len(ran.stdout_data) < MEGABYTES),
            "output was left out, and the result does not say so",
        )


@check("commands", "commands", "bytes")
async def megabytes_of_input_arrive(place: Place) -> None:
    """Standard input of 5 MiB, binary, reaches the program whole."""
    data = secrets.token_bytes(MEGABYTES)
    async with place.session() as session:
        ran = await session.run("cat > copy && wc -c < copy", input=data)
        same(ran.stdout.strip(), str(MEGABYTES), "the number of bytes")
        copied = sha256(await session.read_bytes("copy")).hexdigest()
        same(copied, sha256(data).hexdigest(), "the hash of the copy")


@check("commands", "commands", "bytes")
async def input_ends(place: Place) -> None:
    """A program that reads to the end of its input gets there; empty input is at its end."""
    async with place.session() as session:
        same((await session.run("wc -c", input=b"")).stdout.strip(), "0", "empty input")
        same((await session.run("tail -c 3", input=b"one two")).stdout, "two", "some input")


@check("commands", "commands")
async def without_input_nothing_waits_for_any(place: Place) -> None:
    """A command that reads where no input was given meets its end at once."""
    async with place.session() as session:
        ran = await session.run("cat; echo over", timeout_seconds=30)
        same((ran.outcome, ran.stdout), ("exited", "over\n"), "the result")


@contextmanager
def _set(variables: dict[str, str]) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


@check("commands", "commands")
async def forwarded_variables_arrive(place: Place) -> None:
    """Variables that the profile forwards have their values in the environment."""
    name, value = f"CHECKED_{secrets.token_hex(4)}", 'zäh "$x"'
    with _set({name: value}):
        async with place.session({"forward_env": [name]}) as session:
            ran = await session.run(["printenv", name])
            same(ran.stdout, f"{value}\n", "the variable")


@check("commands", "commands")
async def other_variables_stay_with_the_host(place: Place) -> None:
    """What the profile does not forward is not there, unless the environment is this machine."""
    name = f"CHECKED_{secrets.token_hex(4)}"
    with _set({name: "hidden"}):
        async with place.session() as session:
            ran = await session.run(["printenv", name])
            seen = ran.stdout if session.backend != "local" else ""
            same(seen, "", "the variable")


@check("commands", "commands")
async def a_variable_that_is_not_set_refuses_the_environment(place: Place) -> None:
    """A profile that forwards what is not set is an error before anything is made."""
    name = f"CHECKED_{secrets.token_hex(4)}"
    with fails(ConfigError, what="a variable that is not set"):
        async with place.session({"forward_env": [name]}) as session:
            await session.list_files()


@check("commands", "commands")
async def a_signal_is_told(place: Place) -> None:
    """A command that ends by a signal says so, and the next one works."""
    async with place.session() as session:
        ran = await session.run("kill -TERM $$; sleep 5")
        same((ran.outcome, ran.exit_code), ("signalled", 143), "the result")
        same((await session.run("echo on")).stdout, "on\n", "the next command")


async def _beats(session: Session, path: str = "beat") -> bool:
    """Return whether something still writes to the file."""
    count = f"wc -c < {path}"
    ran = await session.run(f"a=$({count}); sleep 0.4; b=$({count}); test $a -eq $b")
    return ran.exit_code != 0


async def _falls_silent(session: Session, who: str) -> None:
    """Wait until nothing writes any more: a call that is cancelled does not wait for the end."""
    with anyio.move_on_after(STUBBORN_SECONDS) as scope:
        while await _beats(session):
            pass
    holds(not scope.cancelled_caught, f"{who} still writes")


_BEATING = "while :; do echo x >> {0}; sleep 0.02; done"


@check("stopping", "commands")
async def a_timeout_ends_all_of_a_command(place: Place) -> None:
    """After its time nothing of a command runs, although something of it did before."""
    async with place.session() as session:
        beating = _BEATING.format("beat")
        ran = await session.run(f"({beating}) & {beating}", timeout_seconds=1)
        same((ran.outcome, ran.exit_code), ("timed_out", -1), "the result")
        holds((await session.read_file("beat")).text, "the command never ran")
        holds(not await _beats(session), "something of the command still writes")


@check("stopping", "commands")
async def a_cancelled_command_ends(place: Place) -> None:
    """A command whose call is cancelled was running, and runs no more; the session goes on."""
    async with place.session() as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, _BEATING.format("beat"))
            await appears(session, "beat")
            holds(await _beats(session), "the command does not run before it is cancelled")
            tasks.cancel_scope.cancel()
        await _falls_silent(session, "the cancelled command")


@check("stopping", "commands")
async def a_cancelled_tree_ends(place: Place) -> None:
    """Offspring that ignores the polite signal ends with the cancelled command."""
    async with place.session() as session:
        await session.write_file("child.sh", f"trap '' TERM HUP INT\n{_BEATING.format('beat')}\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "sh child.sh & wait")
            await appears(session, "beat")
            tasks.cancel_scope.cancel()
        await _falls_silent(session, "the stubborn child")


@check("stopping", "commands")
async def a_cancelled_command_takes_no_other_along(place: Place) -> None:
    """Of two commands that run, the one that is not cancelled goes on and ends well."""
    async with place.session() as session:
        results = []

        async def stay() -> None:
            results.append(await session.run(": > up; until test -e go; do sleep 0.02; done"))

        async with anyio.create_task_group() as staying:
            staying.start_soon(stay)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.run, _BEATING.format("beat"))
                await appears(session, "beat")
                tasks.cancel_scope.cancel()
            await session.write_file("go", "x")
        same([each.exit_code for each in results], [0], "the command that was not cancelled")


@check("stopping", "commands")
async def calls_that_follow_do_not_wait_for_a_slow_one(place: Place) -> None:
    """While a command runs, tools answer."""
    async with place.session() as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "echo x > up; until test -e go; do sleep 0.02; done")
            await appears(session, "up")
            await session.write_file("go", "x")
        same((await session.run("cat up")).stdout, "x\n", "the file")
