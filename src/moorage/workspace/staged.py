"""Replace a file as a whole: the new content is written beside it and takes its name at once.

Nobody ever reads a half-written file, and whatever goes wrong leaves the old one as it was.
"""

from __future__ import annotations

import errno
import os
import stat

from moorage.errors import Refused
from moorage.workspace.files import ChangedMeanwhile, fingerprint
from moorage.workspace.opening.beneath import FOLDER_FLAGS
from moorage.workspace.opening.location import Target, check_regular

_O_TMPFILE: int = getattr(os, "O_TMPFILE", 0)
_OWN_DESCRIPTORS = "/proc/self/fd"
# What a file system answers that has no anonymous files, or no hard links.
_NO_ANONYMOUS = (errno.EISDIR, errno.ENOENT, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
_NO_LINKS = (errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


class AlreadyThere(Exception):
    """A file that was to be created exists; it is unchanged."""

    def __init__(self, display: str) -> None:
        """Keep how the file is shown."""
        super().__init__(f"{display} exists already.")
        self.display = display


class StagedFile:
    """New content on its way into a target; leaving the ``with`` without ``commit`` drops it."""

    def __init__(self, target: Target, *, anonymous: bool = False) -> None:
        """Open the place for the new content; the target's folder must stay held meanwhile.

        ``anonymous`` content vanishes even when this process is killed, at the cost of one more
        step; it is meant for content that arrives slowly.

        Raises:
            WrongFileType: the target is a folder or a special file.
            Refused: the existing file may not be written to, or its owner cannot be kept.
            OSError: the system refuses, or the disk is full.
        """
        self._target = target
        self._folder_fd = target.folder_fd
        self._fd = -1
        self._temporary_name = ""
        self._made_folders: list[tuple[int, str]] = []
        try:
            self._check_existing()
            if not anonymous:
                self._make_folders()
            self._open_content(anonymous=anonymous)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> StagedFile:
        """Return itself."""
        return self

    def __exit__(self, *details: object) -> None:
        """Drop what was not committed."""
        self.close()

    def write(self, data: bytes) -> None:
        """Append ``data`` to the new content.

        Raises:
            OSError: the disk is full or fails.
        """
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def commit(self, *, create_only: bool = False, replace_any: bool = False) -> None:
        """Let the new content take the target's name.

        ``replace_any`` replaces whatever has the name by now, for content that does not build on
        what was there before.

        Raises:
            AlreadyThere: the name was taken meanwhile, and the file was to be created.
            ChangedMeanwhile: the existing file was changed or replaced since it was looked at.
            Refused: the owner of the existing file cannot be kept.
            OSError: the system refuses, or the disk is full.
        """
        self._take_over_attributes()
        self._make_folders()
        if not self._temporary_name:
            self._name_content()
        self._close_content()
        if replace_any:
            self._rename()
        elif create_only or self._target.status is None:
            self._claim()
        else:
            self._check_unchanged(self._target.status)
            self._rename()

    def close(self) -> None:
        """Drop what was not committed, and let go of every descriptor."""
        try:
            self._close_content()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._temporary_name:
            _quietly_remove(self._temporary_name, self._folder_fd)
            self._temporary_name = ""
        while self._made_folders:
            parent_fd, name = self._made_folders.pop()
            os.close(self._folder_fd)
            self._folder_fd = parent_fd
            if name:
                _quietly_remove_folder(name, parent_fd)

    def _check_existing(self) -> None:
        status = self._target.status
        if status is None:
            return
        display = self._target.location.display
        check_regular(status.st_mode, display)
        # Taking over the name needs leave for the folder only; the file's own mode counts too.
        name = self._target.name
        if not os.access(name, os.W_OK, dir_fd=self._folder_fd, effective_ids=True):
            is_read_only = os.fstatvfs(self._folder_fd).f_flag & os.ST_RDONLY
            code = errno.EROFS if is_read_only else errno.EACCES
            raise OSError(code, os.strerror(code), display)

    def _check_unchanged(self, before: os.stat_result) -> None:
        try:
            status = os.stat(self._target.name, dir_fd=self._folder_fd, follow_symlinks=False)
        except FileNotFoundError:
            raise ChangedMeanwhile(self._target.location.display) from None
        if fingerprint(status) != fingerprint(before):
            raise ChangedMeanwhile(self._target.location.display)

    def _close_content(self) -> None:
        # Some file systems tell only now that the disk is full: before the name is taken.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _make_folders(self) -> None:
        for name in self._target.missing[len(self._made_folders) :]:
            parent_fd = self._folder_fd
            try:
                os.mkdir(name, 0o755, dir_fd=parent_fd)
            except FileExistsError:
                is_ours = False
            else:
                is_ours = True
            try:
                self._folder_fd = os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=parent_fd)
            except BaseException:
                if is_ours:
                    _quietly_remove_folder(name, parent_fd)
                raise
            # A folder that someone else made meanwhile is not ours to remove.
            self._made_folders.append((parent_fd, name if is_ours else ""))

    def _open_content(self, *, anonymous: bool) -> None:
        flags = os.O_WRONLY | os.O_CLOEXEC
        # Nobody may read more than the old content allowed; a new file follows the umask.
        mode = 0o644 if self._target.status is None else 0o600
        if anonymous and self._open_anonymous(flags, mode):
            return
        self._make_folders()
        name = _temporary_name()
        flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        self._fd = os.open(name, flags, mode, dir_fd=self._folder_fd)
        self._temporary_name = name

    def _open_anonymous(self, flags: int, mode: int) -> bool:
        if not _O_TMPFILE or not os.path.isdir(_OWN_DESCRIPTORS):
            return False
        try:
            self._fd = os.open(".", flags | _O_TMPFILE, mode, dir_fd=self._folder_fd)
        except OSError as error:
            if error.errno in _NO_ANONYMOUS:
                return False
            raise
        return True

    def _name_content(self) -> None:
        name = _temporary_name()
        os.link(f"{_OWN_DESCRIPTORS}/{self._fd}", name, dst_dir_fd=self._folder_fd)
        self._temporary_name = name

    def _take_over_attributes(self) -> None:
        status = self._target.status
        if status is None:
            return
        own = os.fstat(self._fd)
        if (status.st_uid, status.st_gid) != (own.st_uid, own.st_gid):
            self._take_over_owner(status)
        _copy_extended(f"{_OWN_DESCRIPTORS}/{self._folder_fd}/{self._target.name}", self._fd)
        # Set-user-id and set-group-id fall, as they do when an ordinary user writes to a file.
        os.fchmod(self._fd, stat.S_IMODE(status.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))

    def _take_over_owner(self, status: os.stat_result) -> None:
        try:
            os.fchown(self._fd, status.st_uid, status.st_gid)
        except PermissionError as error:
            raise Refused(
                f"{self._target.location.display} belongs to another user or group, and "
                "replacing it would change that.",
                reason="owner_not_kept",
                hint="Ask its owner to change it.",
            ) from error

    def _claim(self) -> None:
        """Take a name that must be free, in one step."""
        name = self._target.name
        try:
            os.link(
                self._temporary_name,
                name,
                src_dir_fd=self._folder_fd,
                dst_dir_fd=self._folder_fd,
                follow_symlinks=False,
            )
        except FileExistsError:
            raise AlreadyThere(self._target.location.display) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._claim_without_links(name)
        self._keep_folders()

    def _claim_without_links(self, name: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            os.close(os.open(name, flags, 0o600, dir_fd=self._folder_fd))
        except FileExistsError:
            raise AlreadyThere(self._target.location.display) from None
        try:
            self._rename()
        except BaseException:
            _quietly_remove(name, self._folder_fd)
            raise

    def _rename(self) -> None:
        os.rename(
            self._temporary_name,
            self._target.name,
            src_dir_fd=self._folder_fd,
            dst_dir_fd=self._folder_fd,
        )
        self._temporary_name = ""
        self._keep_folders()

    def _keep_folders(self) -> None:
        self._made_folders = [(parent_fd, "") for parent_fd, _ in self._made_folders]


def _temporary_name() -> str:
    return f".moorage-{os.urandom(8).hex()}.tmp"


def _quietly_remove(name: str, folder_fd: int) -> None:
    try:
        os.unlink(name, dir_fd=folder_fd)
    except OSError:
        return


def _quietly_remove_folder(name: str, parent_fd: int) -> None:
    try:
        os.rmdir(name, dir_fd=parent_fd)
    except OSError:
        return


def _copy_extended(source: str, fd: int) -> None:
    """Carry over what users attach to files; attributes of the kernel's own stay behind."""
    if not hasattr(os, "listxattr"):
        return
    try:
        for name in os.listxattr(source, follow_symlinks=False):
            if name.startswith("user.") or name == "system.posix_acl_access":
                os.setxattr(fd, name, os.getxattr(source, name, follow_symlinks=False))
    except OSError:
        return
