from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.errors import ConfigError, Refused
from moorage.policy.permission import PermissionMode
from moorage.workspace.opening import scopes
from moorage.workspace.opening.location import FolderMissing, WrongFileType
from moorage.workspace.root import WorkspaceRoot

STANDARD = PermissionMode.STANDARD
READ_ONLY = PermissionMode.READ_ONLY
UNCONFINED = PermissionMode.UNCONFINED


class Ground:
    """A workspace, a further writable folder, Moorage's own home, and the world outside."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "workspace"
        self.extra = folder / "extra"
        self.home = folder / "home"
        self.own = self.home / "session"
        self.outside = folder / "outside"
        for made in (self.path, self.extra, self.own, self.outside):
            made.mkdir(parents=True)
            (made / "a.txt").write_text(made.name)
        self.root = WorkspaceRoot.open(
            self.path, (self.extra,), readable=(self.own,), hidden_folders=(self.home,)
        )

    def read(self, path: str | Path, mode: PermissionMode = STANDARD) -> str:
        fd, _ = self.root.open_read(str(path), mode)
        with os.fdopen(fd) as file:
            return file.read()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    yield ground
    ground.root.close()


def test_relative_paths_start_at_the_workspace_and_absolute_ones_may_lie_in_any_root(
    ground: Ground,
) -> None:
    assert ground.read("a.txt") == "workspace"
    assert ground.read(ground.path / "a.txt") == "workspace"
    assert ground.read(ground.extra / "a.txt") == "extra"
    assert ground.read("../extra/a.txt") == "extra"


def test_what_lies_elsewhere_is_refused(ground: Ground) -> None:
    for path in (ground.outside / "a.txt", "../outside/a.txt", "/etc/passwd", "/"):
        with pytest.raises(Refused) as caught:
            ground.read(path)
        assert caught.value.reason == "boundary_denied"


def test_symlinks_between_permitted_folders_are_followed(ground: Ground) -> None:
    (ground.path / "to_extra").symlink_to(ground.extra)
    (ground.path / "to_file").symlink_to("a.txt")
    (ground.path / "absolute").symlink_to(ground.path / "a.txt")
    assert ground.read("to_extra/a.txt") == "extra"
    assert ground.read("to_file") == "workspace"
    assert ground.read("absolute") == "workspace"


def test_two_dots_mean_what_the_system_means(ground: Ground) -> None:
    (ground.path / "deep/er").mkdir(parents=True)
    (ground.path / "deep/a.txt").write_text("deep")
    (ground.path / "link").symlink_to("deep/er")
    assert ground.read("deep/../a.txt") == "workspace"
    assert ground.read("link/../a.txt") == "deep"


def test_the_workspace_may_be_named_through_a_symlink(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(ground.path)
    assert ground.read(tmp_path / "alias/a.txt") == "workspace"
    root = WorkspaceRoot.open(tmp_path / "alias")
    assert root.path == str(ground.path)
    root.close()


def test_a_location_tells_how_to_show_a_path_and_where_it_is(ground: Ground) -> None:
    (ground.path / "link").symlink_to(".env")
    inside = ground.root.resolve("./sub//new.txt", STANDARD)
    assert (inside.display, inside.absolute) == ("sub/new.txt", f"{ground.path}/sub/new.txt")
    further = ground.root.resolve(str(ground.extra / "x"), STANDARD)
    assert further.display == further.absolute == f"{ground.extra}/x"
    protected = ground.root.resolve("link", STANDARD)
    assert (protected.display, protected.is_protected) == (".env", True)


def test_names_that_are_not_utf8_can_be_shown(ground: Ground) -> None:
    os.close(os.open(os.fsencode(ground.path) + b"/b\xff", os.O_CREAT | os.O_WRONLY))
    (ground.path / "link").symlink_to(os.fsdecode(b"b\xff"))
    assert ground.root.resolve("link", STANDARD).display == "b\\udcff"


def test_protection_by_name_counts_from_the_permitted_folder(tmp_path: Path) -> None:
    workspace = tmp_path / "secret-project"
    workspace.mkdir()
    root = WorkspaceRoot.open(workspace)
    assert not root.is_protected("notes.txt")
    assert not root.is_protected(str(workspace / "notes.txt"))
    assert root.is_protected(".env")
    assert root.is_protected("/home/me/.ssh/id_rsa")
    root.close()


def test_the_readable_folder_is_not_writable(ground: Ground) -> None:
    assert ground.read(ground.own / "a.txt") == "session"
    for mode in (STANDARD, UNCONFINED):
        with pytest.raises(Refused):
            ground.root.open_target(str(ground.own / "a.txt"), mode)


def test_moorages_own_folders_are_out_of_reach_in_every_mode(ground: Ground) -> None:
    for mode in PermissionMode:
        with pytest.raises(Refused) as caught:
            ground.read(ground.home / "config.json", mode)
        assert caught.value.reason == "boundary_denied"
    with pytest.raises(Refused, match="belongs to Moorage itself"):
        ground.root.resolve(str(ground.home), UNCONFINED)


def test_a_permitted_folder_inside_a_hidden_one_is_permitted(tmp_path: Path) -> None:
    temporary = tmp_path / "home/tmp"
    temporary.mkdir(parents=True)
    root = WorkspaceRoot.open(tmp_path / "home/tmp", hidden_folders=(tmp_path / "home",))
    with root.open_target("a.txt", STANDARD) as target:
        assert target.status is None
    root.close()


def test_unconfined_reaches_everything_else(ground: Ground) -> None:
    assert ground.read(ground.outside / "a.txt", UNCONFINED) == "outside"
    (ground.path / "link").symlink_to(ground.outside)
    assert ground.read("link/a.txt", UNCONFINED) == "outside"
    with ground.root.open_target(str(ground.outside / "new/b"), UNCONFINED) as target:
        assert target.missing == ("new",)
        assert target.location.display == f"{ground.outside}/new/b"


def test_protected_files_open_only_unconfined_or_for_those_who_mask(ground: Ground) -> None:
    (ground.path / ".env").write_text("A=1")
    with pytest.raises(Refused):
        ground.read(".env")
    assert ground.read(".env", UNCONFINED) == "A=1"
    fd, location = ground.root.open_read(".env", READ_ONLY, with_protected=True)
    os.close(fd)
    assert location.is_protected


def test_folders_open_for_listing(ground: Ground) -> None:
    fd, location = ground.root.open_directory(".", READ_ONLY)
    assert os.listdir(fd) == ["a.txt"]
    os.close(fd)
    assert location.display == "."
    with pytest.raises(NotADirectoryError):
        ground.root.open_directory("a.txt", STANDARD)
    with pytest.raises(Refused):
        ground.root.open_directory("..", STANDARD)


def test_a_target_names_what_is_there_and_what_is_missing(ground: Ground) -> None:
    with ground.root.open_target("a.txt", STANDARD) as target:
        assert (target.name, target.missing) == ("a.txt", ())
        assert target.status is not None
    with ground.root.open_target("x/y/z.txt", STANDARD) as target:
        assert (target.name, target.missing, target.status) == ("z.txt", ("x", "y"), None)
    assert not (ground.path / "x").exists()


def test_no_target_is_given_in_the_mode_that_only_reads(ground: Ground) -> None:
    with pytest.raises(Refused, match="permission mode is read_only"):
        ground.root.open_target("a.txt", READ_ONLY)


def test_the_workspace_itself_is_no_target(ground: Ground) -> None:
    for path in (".", "sub/", str(ground.path)):
        with pytest.raises(WrongFileType):
            ground.root.open_target(path, STANDARD)


def test_symlinks_in_a_circle_are_an_error(ground: Ground) -> None:
    (ground.path / "one").symlink_to("two")
    (ground.path / "two").symlink_to("one")
    with pytest.raises(OSError, match="circle") as caught:
        ground.read("one")
    assert caught.value.errno == errno.ELOOP


def test_a_workspace_made_anew_is_followed(ground: Ground) -> None:
    shutil.rmtree(ground.path)
    with pytest.raises(FolderMissing):
        ground.read("a.txt")
    ground.path.mkdir()
    (ground.path / "a.txt").write_text("new")
    assert ground.read("a.txt") == "new"


def test_a_missing_checkout_never_falls_back_to_another_tree(tmp_path: Path) -> None:
    main, checkout = tmp_path / "main", tmp_path / "main-worktree"
    for made in (main, checkout):
        made.mkdir()
        (made / "a.txt").write_text(made.name)
    root = WorkspaceRoot.open(checkout)
    checkout.rename(tmp_path / "elsewhere")
    checkout.symlink_to(main)
    with pytest.raises(FolderMissing):
        root.open_read("a.txt", STANDARD)
    with pytest.raises(FolderMissing):
        root.open_target("b.txt", STANDARD)
    root.close()


def test_a_folder_may_be_added_by_the_user(ground: Ground) -> None:
    ground.root.add_folder(ground.outside)
    assert ground.read(ground.outside / "a.txt") == "outside"
    assert ground.root.folders == (str(ground.path), str(ground.extra), str(ground.outside))


@pytest.mark.parametrize("granted", [".git", ".git/worktrees/work"])
def test_a_granted_repository_is_protected_from_the_file_tools_all_the_same(
    tmp_path: Path, granted: str
) -> None:
    workspace, repository = tmp_path / "work", tmp_path / "main" / granted
    for made in (workspace, repository):
        made.mkdir(parents=True)
        (made / "config").touch()
    root = WorkspaceRoot.open(workspace, (repository,))
    assert root.is_protected(str(repository / "config"))
    assert not root.is_protected("config")
    with pytest.raises(Refused) as refused:
        root.open_target(str(repository / "config"), STANDARD)
    assert refused.value.reason == "protected_path"
    root.close()


def test_a_folder_that_cannot_be_used_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        with pytest.raises(ConfigError, match=name) as refused:
            WorkspaceRoot.open(tmp_path, (tmp_path / name,))
        assert refused.value.path == "writable_roots"
        with pytest.raises(ConfigError, match=name) as refused:
            WorkspaceRoot.open(tmp_path / name)
        assert refused.value.path == "workspace"


def test_the_whole_disk_may_be_the_workspace() -> None:
    root = WorkspaceRoot.open("/")
    assert root.resolve("etc/passwd", STANDARD).absolute == "/etc/passwd"
    root.close()


def test_a_file_replaced_while_it_is_opened_is_opened_anew(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = scopes.open_beneath
    swapped: list[str] = []

    def swapping(folder_fd: int, relative: str, flags: int) -> int:
        fd = real(folder_fd, relative, flags)
        if not swapped:
            (ground.path / "b.txt").write_text("newer")
            (ground.path / "b.txt").rename(ground.path / "a.txt")
            swapped.append(relative)
        return fd

    monkeypatch.setattr(scopes, "open_beneath", swapping)
    assert ground.read("a.txt") == "newer"


def test_closing_lets_go_of_every_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    root = WorkspaceRoot.open(tmp_path)
    root.resolve("/etc", UNCONFINED)
    root.close()
    root.close()
    assert len(os.listdir("/proc/self/fd")) == before
