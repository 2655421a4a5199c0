"""``moorage demo``: the main job on a small real project, through the public API alone."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from textwrap import dedent

import anyio
import click

import moorage
from moorage.cli import exit_codes
from moorage.cli.render import styled
from moorage.cli.steps import Step, Steps
from moorage.cli.trial_place import TrialPlace, trial_place

FILES = {
    "prices/__init__.py": '"""Prices in cents."""\n',
    "prices/total.py": dedent(
        '''\
        """Add up a basket."""


        def total(cents: list[int], discount_percent: int = 0) -> int:
            """Return the sum, less the discount."""
            return sum(cents) - discount_percent
        '''
    ),
    "tests/__init__.py": "",
    "tests/test_total.py": dedent(
        """\
        import unittest

        from prices.total import total


        class Total(unittest.TestCase):
            def test_adds_up(self) -> None:
                self.assertEqual(total([250, 199]), 449)

            def test_a_discount_makes_it_cheaper(self) -> None:
                self.assertEqual(total([1000], discount_percent=10), 900)
        """
    ),
}
WRONG = "sum(cents) - discount_percent"
RIGHT = "sum(cents) * (100 - discount_percent) // 100"
TESTS = "python3 -m unittest"
# Whatever the user's Git wants of a commit (an identity, a signature, hooks), this one needs none.
GIT = (
    "git -c user.name=Demo -c user.email=demo@example.invalid "
    "-c commit.gpgSign=false -c core.hooksPath=/dev/null"
)
COMMIT = f"git init -q && git add prices tests && {GIT} commit -q -m 'First version'"
NEXT = """
That was one session, opened and used through the public API. Nothing of it is left.
Next:  moorage doctor                       what this machine enforces, and what not
       moorage run -- COMMAND               the same for your own project
       moorage mcp --workspace DIR          the same for your agent
"""


@click.command()
def command() -> int:
    """Show the main job: from a failing test to a green one, confined by the kernel.

    Needs Git and Python, no network; everything happens in a temporary folder.
    """
    with trial_place() as place:
        anyio.run(play, place)
    return exit_codes.OK


async def play(place: TrialPlace) -> None:
    """Play the demo in a place that is gone afterwards."""
    workspace, home, outside = place
    click.echo(f"{styled('Moorage', bold=True)} at work in {workspace}\n")
    steps = Steps()
    async with moorage.open_session("local", workspace=workspace, home=home) as session:
        with steps.step("Make a small project with Git and tests") as step:
            await make_project(session, step)
        with steps.step("Run its tests: one fails") as step:
            await run_tests(session, step, exit_code=1)
        with steps.step("Search for the discount") as step:
            found = await session.grep("return .*discount_percent", "prices")
            step.expect("total.py" in found.text, f"grep found nothing: {found.text!r}")
            step.show(found.text)
        with steps.step("Edit the wrong line") as step:
            change = await session.edit_file("prices/total.py", WRONG, RIGHT)
            step.expect(change.replacements == 1, f"edited {change.replacements} places")
            step.show(f"{change.path}: {WRONG}  ->  {RIGHT}")
        with steps.step("Run the tests again: green") as step:
            await run_tests(session, step, exit_code=0)
        with steps.step("Try to write outside: the kernel refuses") as step:
            await write_outside(session, step, outside / "stolen.txt")
        with steps.step("Publish the change as an artifact") as step:
            await publish(session, step)
    click.echo(NEXT.rstrip())


async def make_project(session: moorage.Session, step: Step) -> None:
    """Write the files and commit them."""
    for path, content in FILES.items():
        await session.write_file(path, content)
    committed = await session.run(COMMIT)
    step.expect(committed.exit_code == 0, f"git failed: {committed.stderr}")
    step.show(f"{len(FILES)} files, 1 commit")


async def run_tests(session: moorage.Session, step: Step, *, exit_code: int) -> None:
    """Run the project's tests and expect them to end with ``exit_code``."""
    ended = await session.run(TESTS)
    lines = ended.stderr.strip().splitlines()
    step.show(f"$ {TESTS}")
    step.show("\n".join(line for line in lines if line.startswith(("FAIL", "Assert", "Ran", "OK"))))
    seen = f"expected exit code {exit_code}, got {ended.exit_code} ({ended.outcome})"
    step.expect(ended.exit_code == exit_code and "Ran 2 tests" in ended.stderr, seen)


async def write_outside(session: moorage.Session, step: Step, target: Path) -> None:
    """Let a command write beside the workspace and expect the kernel to refuse."""
    ended = await session.run(["sh", "-c", f'echo taken > "{target}"'])
    step.show(ended.stderr.strip())
    is_there = await anyio.Path(target).exists()
    step.expect(ended.exit_code != 0 and not is_there, f"{target} was written")


async def publish(session: moorage.Session, step: Step) -> None:
    """Publish a patch of the change, and compare the copy with what Git says."""
    await session.run("git diff > fix.patch")
    artifact = await session.present_artifact("fix.patch")
    data = await anyio.Path(artifact.path).read_bytes()
    same = sha256(data).hexdigest() == artifact.sha256.removeprefix("sha256:")
    step.expect(same and RIGHT.encode() in data, "the copy is not the patch")
    step.show(f"{artifact.name}, {artifact.size_bytes} bytes, sha256 {artifact.sha256[:16]}…")
