from __future__ import annotations

import pytest

from moorage.cli.remedies import MANAGERS, PACKAGES, find_manager, install_command


def test_the_first_package_manager_that_is_there_is_used() -> None:
    assert find_manager({"dnf", "brew"}.__contains__) == "dnf"
    assert find_manager(lambda _: False) == ""


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("tool", PACKAGES)
def test_every_tool_has_one_command_with_every_manager(tool: str, manager: str) -> None:
    command = install_command(tool, manager, is_root=True)
    assert command.startswith(MANAGERS[manager])
    assert "\n" not in command


def test_only_who_is_not_root_needs_sudo() -> None:
    assert install_command("git", "apt-get", is_root=False) == "sudo apt-get install -y git"
    assert install_command("git", "apt-get", is_root=True) == "apt-get install -y git"
    assert install_command("git", "brew", is_root=False) == "brew install git"


def test_a_package_has_the_name_that_the_manager_gives_it() -> None:
    assert install_command("node", "apk", is_root=True) == "apk add nodejs"
    assert install_command("docker", "apt-get", is_root=True) == "apt-get install -y docker.io"


def test_without_a_known_manager_there_is_advice() -> None:
    assert install_command("git", "", is_root=True).startswith("install git with your system's")
