"""Names whose files hold credentials or a repository's inner state; a decision on text alone."""

from __future__ import annotations

from moorage.workspace.memory import LONGEST_PATH, remembered

_REPOSITORY_STATE = frozenset({".git", ".hg", ".svn"})
_NAMES = frozenset(
    {
        *_REPOSITORY_STATE,
        *(".moorage", ".moorage-state", ".moorage-home"),
        *(".env", ".envrc", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass"),
        *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"),
    }
)
_VARIANTS = (".env.", ".env-", ".env_")
# Variants such as .env.local hold secrets; the templates that people commit do not.
_TEMPLATES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
_KEY_ENDINGS = (".key", ".ppk", ".p12", ".pfx", ".jks")
_TELLING = ("credential", "secret", "private_key", "private-key", "privatekey")
# Source code about secrets is not a secret: the last component's ending decides.
_SOURCE_ENDINGS = tuple(
    f".{ending}"
    for ending in (
        *("py", "pyi", "go", "rs", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "c", "h"),
        *("cc", "cpp", "cxx", "hpp", "java", "kt", "kts", "scala", "rb", "php", "cs", "fs", "m"),
        *("mm", "swift", "sh", "bash", "zsh", "pl", "pm", "lua", "r", "jl", "ex", "exs", "erl"),
        *("hs", "ml", "mli", "clj", "dart", "vue", "svelte", "sql", "proto"),
    )
)
# Every name above has one of these in it; most paths have none and are done with quickly.
_MARKS = (
    *(".env", ".git", ".hg", ".svn", ".moorage", "netrc", ".npmrc", ".pypirc", ".pgpass"),
    *("id_", ".pem", *_KEY_ENDINGS),
)


@remembered(count=1024, longest=LONGEST_PATH)
def is_protected_name(path: str) -> bool:
    """Return whether a component of ``path`` (relative to its root) is a protected name."""
    path = path.lower()
    for mark in _MARKS:
        if mark in path:
            if any(map(_is_protected_component, path.split("/"))):
                return True
            break
    for word in _TELLING:
        if word in path:
            return not path.endswith(_SOURCE_ENDINGS)
    return False


def is_repository_state(folder: str) -> bool:
    """Return whether a folder is a repository's inner state, or lies in one."""
    return not _REPOSITORY_STATE.isdisjoint(folder.lower().split("/"))


def _is_protected_component(name: str) -> bool:
    if name in _NAMES or name.endswith(_KEY_ENDINGS):
        return True
    if name.startswith(_VARIANTS):
        return name not in _TEMPLATES
    return name.endswith(".pem") and ("key" in name or "priv" in name)
