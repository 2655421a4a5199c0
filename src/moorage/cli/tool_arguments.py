"""Words of a command line become the arguments of a tool, typed by the tool's schema (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from moorage.errors import InvalidArguments

_WORD = re.compile(r"(?P<key>[A-Za-z_][A-Za-z0-9_]*)(?P<sign>[=@])(?P<value>.*)", re.DOTALL)
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

Schema = dict[str, Any]
ReadText = Callable[[str], str]


def parse_words(
    name: str, schema: Schema, words: Sequence[str], read_text: ReadText
) -> dict[str, Any]:
    """Return the arguments that the words of a command line name.

    One word that begins with a brace, or ``-`` for standard input, is the whole JSON object. Other
    words are ``key=value``, or ``key@file`` for the content of a file.

    Raises:
        InvalidArguments: a word, key or value does not fit; the sentence names it.
    """
    if len(words) == 1 and (words[0] == "-" or words[0].lstrip().startswith("{")):
        arguments = _json_object(name, read_text("-") if words[0] == "-" else words[0])
        _check_keys(name, schema, arguments)
    else:
        arguments = _from_pairs(name, schema, words, read_text)
    missing = [key for key in schema.get("required", ()) if key not in arguments]
    if missing:
        named = " and ".join(missing)
        word = "argument" if len(missing) == 1 else "arguments"
        raise InvalidArguments(f"{name} needs the {word} {named}.", hint=_see(name))
    return arguments


def type_of(field: Schema) -> str:
    """Return in one word what a field takes: a type, or its choices."""
    field = _without_null(field)
    if "enum" in field:
        return "|".join(_choices(field))
    if field.get("type") == "array":
        return f"{type_of(field.get('items', {}))}, repeatable"
    return {"string": "text", "integer": "number", "boolean": "true|false"}.get(
        field.get("type", ""), "JSON"
    )


def _choices(field: Schema) -> list[str]:
    """Return the values worth naming; the empty one is what leaving the argument out means."""
    return [str(choice) for choice in field["enum"] if choice != ""]


def _see(name: str) -> str:
    return f"See moorage tool {name} --help."


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidArguments(
            f"the arguments of {name} are not valid JSON: {error}.", hint=_see(name)
        ) from error
    if not isinstance(value, dict):
        raise InvalidArguments(f"the arguments of {name} must be one JSON object.", hint=_see(name))
    return value


def _from_pairs(
    name: str, schema: Schema, words: Sequence[str], read_text: ReadText
) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            raise InvalidArguments(
                f"{word!r} is not an argument; write key=value, key@file or one JSON object.",
                hint=_see(name),
            )
        key = match["key"]
        _check_keys(name, schema, [key])
        field = _without_null(schema["properties"][key])
        text = read_text(match["value"]) if match["sign"] == "@" else match["value"]
        value = _typed(key, field, text)
        if field.get("type") == "array":
            arguments.setdefault(key, []).extend(value)
        elif key in arguments:
            raise InvalidArguments(f"{key} is given twice.", hint=_see(name))
        else:
            arguments[key] = value
    return arguments


def _check_keys(name: str, schema: Schema, keys: Sequence[str] | dict[str, Any]) -> None:
    known = schema.get("properties", {})
    for key in keys:
        if key not in known:
            near = get_close_matches(key, known, n=1, cutoff=0.5)
            advice = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}."
            raise InvalidArguments(f"{name} has no argument {key!r}; {advice}", hint=_see(name))


def _without_null(field: Schema) -> Schema:
    """Return the schema of the value itself: that it may be absent is not something one types."""
    for alternative in field.get("anyOf", ()):
        if alternative.get("type") != "null":
            return {**field, **alternative}
    return field


def _typed(key: str, field: Schema, text: str) -> Any:
    if "enum" in field and text not in field["enum"]:
        allowed = ", ".join(_choices(field))
        raise InvalidArguments(f"{key} must be one of {allowed}, not {text!r}.")
    match field.get("type"):
        case "integer":
            return _number(key, text)
        case "boolean":
            return _truth(key, text)
        case "array":
            return _items(key, text)
        case _:
            return text


def _number(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArguments(f"{key} must be a whole number, not {text!r}.") from None


def _truth(key: str, text: str) -> bool:
    try:
        return _TRUTH[text.lower()]
    except KeyError:
        raise InvalidArguments(f"{key} must be true or false, not {text!r}.") from None


def _items(key: str, text: str) -> list[Any]:
    """Return the entries of a list: a JSON array, or one word of its own."""
    if not text.lstrip().startswith("["):
        return [text]
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidArguments(f"{key} is not a valid JSON array: {error}.") from error
    return list(value)
