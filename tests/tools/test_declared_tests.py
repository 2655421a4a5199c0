from __future__ import annotations

import pytest

from moorage.tools.declared_tests import declared_tests, lost_tests


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (
            b"def test_a(x):\n    pass\n\nclass T:\n    async def test_b(self): ...",
            {"test_a", "test_b"},
        ),
        (b"func TestSum(t *testing.T) {\n}\nfunc (s *Suite) TestIt() {", {"TestSum", "TestIt"}),
        (b"#[test]\nfn adds() {}\n#[tokio::test]\nasync fn waits() {}", {"adds", "waits"}),
        (
            b"it('adds', () => {})\n  test.only(\"waits\", f)\ndescribe(`all`, f)",
            {"adds", "waits", "all"},
        ),
        (b"@Test\nvoid adds() {}\n@Test public void waits() {}", {"adds", "waits"}),
        (b"x = 1\n", set()),
        (b"# a test of nothing\nexit(1)\n", set()),
    ],
)
def test_declarations_of_the_usual_languages_are_found(source: bytes, names: set[str]) -> None:
    assert declared_tests(source) == names


def test_lost_tests_are_named_in_order() -> None:
    old = b"def test_b(): ...\ndef test_a(): ...\ndef test_c(): ...\n"
    assert lost_tests(old, b"def test_c(): ...\n") == ["test_a", "test_b"]
    assert lost_tests(b"x = 1\n", b"") == []
