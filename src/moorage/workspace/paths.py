"""Where a path points, as text alone: no disk is touched here and no symlink is known."""

from __future__ import annotations

from posixpath import isabs, join, normpath

from moorage.errors import InvalidArguments

# A model may name the session's own folder without knowing where it lies.
SESSION_FOLDER_FORMS = ("$MOORAGE_SESSION_DIR", "${MOORAGE_SESSION_DIR}")


def absolute_form(root: str, path: str, *, session_folder: str = "") -> str:
    """Return ``path`` as an absolute path; a relative one starts at ``root``.

    A ``..`` stays where it is: what it means depends on the symlinks before it.

    Raises:
        InvalidArguments: the path is empty or can be no path at all.
    """
    if not path:
        raise InvalidArguments("the path is empty.", hint="Use . for the workspace root.")
    if "\0" in path:
        raise InvalidArguments(f"the path {path!r} contains a NUL character.")
    if session_folder and path.startswith("$"):
        path = _expand(path, session_folder)
    absolute = path if isabs(path) else join(root, path)
    return absolute if climbs(absolute) else normpath("/" + absolute.lstrip("/"))


def climbs(path: str) -> bool:
    """Return whether a component of ``path`` is ``..``."""
    return ".." in path and ".." in path.split("/")


def beneath(folder: str, absolute: str) -> str | None:
    """Return ``absolute`` relative to ``folder`` (``.`` for itself), or None when it lies outside.

    ``absolute`` holds no ``..``.
    """
    if absolute == folder:
        return "."
    prefix = folder if folder.endswith("/") else folder + "/"
    return absolute[len(prefix) :] if absolute.startswith(prefix) else None


def _expand(path: str, session_folder: str) -> str:
    for form in SESSION_FOLDER_FORMS:
        if path == form or path.startswith(form + "/"):
            return session_folder + path[len(form) :]
    return path
