"""A tree with everything that makes two search engines disagree."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from moorage.confine.nursery import Nursery, start_nursery
from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode
from moorage.process.spec import SupervisorLimits
from moorage.process.supervisor import Supervisor

CORPUS: dict[str, bytes] = {
    "a.py": b"import os\nfoo = 1\nbar(foo)\n\nclass Foo:\n    pass\n",
    "src/main.rs": b'fn main() {\n    let foo_bar = "x";\n}\n',
    "src/deep/er/util.ts": b"export const foo: string = 'bar';\nfoo.bar[0]\n",
    "docs/windows.txt": b"first line\r\nfoo line\r\nend;\r\n",
    "docs/unicode.md": (
        "caf\u00e9 \u00c9t\u00e9\nstra\u00dfe STRASSE\n\u0394\u03b4 \u65e5\u672c foo\n"
        "e\u0301 x\n\u00a0nbsp\n"
    ).encode(),
    "docs/latin.txt": b"caf\xe9 foo\n\xff\xfe not utf\n",
    "docs/bom.txt": b"\xef\xbb\xbffoo at the start\nfoo again\n",
    "docs/utf16le.txt": "foo in sixteen bits\nbar\n".encode("utf-16"),
    "docs/utf16be.txt": b"\xfe\xff" + "foo the other way\n".encode("utf-16-be"),
    "empty": b"",
    "only-newlines": b"\n\n\n",
    "no-end": b"foo without a newline",
    "binary/early": b"foo\n\0foo\n",
    "binary/late": b"foo\n" + (b"p" * 99 + b"\n") * 1000 + b"\0",
    "long/line": b"x" * 9_000 + b"foo" + b"y" * 9_000 + b"\nfoo\n",
    "long/many": b"foo 1 bar\n" * 600,
    "tabs": b"\tfoo\n  foo\nfoo\tbar\n\x0cfoo\x1cbar\n",
    "punctuation": b"a.b*c+d?e[f]g{h}i(j)k|l^m$n\\o/p\"q'r-s&t~u#v\n--foo\n$foo\n",
    ".hidden": b"foo hidden\n",
    ".config/x": b"foo config\n",
    ".gitignore": b"*.log\n/built/\n!keep.log\n# comment\n\\#odd\n",
    "x.log": b"foo log\n",
    "keep.log": b"foo kept log\n",
    "sub/y.log": b"foo log\n",
    "sub/built/z": b"foo not anchored\n",
    "built/z": b"foo built\n",
    "#odd": b"foo odd\n",
    ".git/HEAD": b"foo ref\n",
    ".git/info/exclude": b"excluded.*\n",
    "excluded.txt": b"foo excluded\n",
    "sub/.ignore": b"secret/\n*.tmp\n!important.tmp\n",
    "sub/secret/a": b"foo secret\n",
    "sub/a.tmp": b"foo tmp\n",
    "sub/important.tmp": b"foo important\n",
    "sub/.rgignore": b"!a.tmp\nrg-only\n",
    "sub/rg-only": b"foo rg\n",
    "nested/.git/HEAD": b"foo\n",
    "nested/inner.log": b"foo: the outer repository's rules end here\n",
    "nested/.gitignore": b"/own\n**/gen/*.js\n",
    "nested/own": b"foo\n",
    "nested/a/gen/x.js": b"foo\n",
    "nested/a/gen/x.ts": b"foo kept\n",
    "node_modules/m/index.js": b"foo module\n",
    "src/vendor/v.go": b"foo vendor\n",
    "vendored/v.go": b"foo vendored\n",
    "sp ace/na\u00efve.txt": b"foo\n",
    "-dash": b"foo\n",
    "[x]{y}!.txt": b"foo\n",
}


def write_corpus(root: Path) -> None:
    for name, content in CORPUS.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (root / "link.py").symlink_to("a.py")
    (root / "dangling").symlink_to("nowhere")
    (root / "src" / "circle").symlink_to("..")
    (root / "out").symlink_to("/")
    (root / os.fsdecode(b"b\xe9d")).write_bytes(b"foo\n")
    os.mkfifo(root / "fifo")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("corpus")))
    write_corpus(root)
    return root


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = start_nursery()
    yield nursery
    nursery.close()


@pytest.fixture
async def supervisor(nursery: Nursery) -> AsyncIterator[Supervisor]:
    limits = SupervisorLimits(end_grace_seconds=0.3)
    async with Supervisor(
        nursery, base_variables=lambda _: dict(os.environ), limits=limits
    ) as supervisor:
        yield supervisor


@pytest.fixture
def plan(corpus: Path) -> Plan:
    return Plan(mode=PermissionMode.STANDARD, writable_roots=(str(corpus),))
