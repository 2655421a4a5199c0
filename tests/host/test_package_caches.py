"""Tools that keep a cache: theirs is private and may be written, and another one's denial helps."""

from __future__ import annotations

from pathlib import Path

import pytest

import moorage

pytestmark = pytest.mark.needs("landlock")


async def test_a_package_cache_can_be_written_and_is_kept_for_the_next_command(
    session: moorage.Session,
) -> None:
    folders = '"$PIP_CACHE_DIR" "$npm_config_cache" "$XDG_CACHE_HOME/some-tool"'
    made = await session.run(
        f"mkdir -p {folders} && for f in {folders}; do echo kept > $f/file || exit 1; done"
    )
    assert (made.exit_code, made.stderr) == (0, "")
    found = await session.run(f"for f in {folders}; do cat $f/file; done")
    assert found.stdout == "kept\n" * 3
    assert (await session.run("ls -A")).stdout == ""


@pytest.mark.parametrize("in_background", [False, True])
async def test_a_denied_cache_of_another_place_comes_with_what_the_user_can_do(
    session: moorage.Session, tmp_path: Path, in_background: bool
) -> None:
    elsewhere = tmp_path / "cache"
    elsewhere.mkdir()
    command = f"mkdir {elsewhere}/wheels"
    if in_background:
        record = await session.processes.start(command, tty=False)
        async for _ in session.processes.follow(record.id):
            pass
        result = await session.call("bash", {"action": "read", "process_id": record.id})
    else:
        result = await session.call("bash", {"command": command})
    assert "Permission denied" in result.text
    assert "--writable DIR" in result.text
    assert "Do not look for another command" in result.text
    assert list(elsewhere.iterdir()) == []
