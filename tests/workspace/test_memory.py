from __future__ import annotations

from moorage.workspace.memory import remembered


def test_short_texts_are_remembered_up_to_a_count_and_long_ones_never() -> None:
    asked: list[str] = []

    @remembered(count=2, longest=3)
    def size(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [size(text) for text in ("abc", "abc", "long", "long")] == [3, 3, 4, 4]
    assert asked == ["abc", "long", "long"]
    for text in ("x", "y", "abc"):
        size(text)
    assert asked[3:] == ["x", "y", "abc"]
    assert size.__name__ == "size"
