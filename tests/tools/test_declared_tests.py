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
        (b"@Test(timeout = 5) void adds() { f(1); }\n  g(2);\n@Test // no", {"adds"}),
        (b"@Test // why\n\n  fun adds() {}\n@ParameterizedTest\n@Order(1)\n", {"adds"}),
        (b"x = 1\n", set()),
        (b"# a test of nothing\nexit(1)\n", set()),
    ],
)
def test_declarations_of_the_usual_languages_are_found(source: bytes, names: set[str]) -> None:
    assert declared_tests(source) == names


@pytest.mark.timeout(5)  # tried one way after another, these would take hours
@pytest.mark.parametrize(
    "source",
    [
        b"@Test " + b"a " * 500_000,
        b"@Test " * 150_000,
        b"@Test\n" + b" \n" * 500_000,
        b"#[test" * 150_000,
        b"#[" + b"a::" * 300_000,
        b"#[test]" + b" " * 1_000_000,
        b"def test" + b"a" * 1_000_000,
    ],
)
def test_no_source_takes_long_to_look_through(source: bytes) -> None:
    assert not declared_tests(source)


def test_lost_tests_are_named_in_order() -> None:
    old = b"def test_b(): ...\ndef test_a(): ...\ndef test_c(): ...\n"
    assert lost_tests(old, b"def test_c(): ...\n") == ["test_a", "test_b"]
    assert lost_tests(b"x = 1\n", b"") == []
