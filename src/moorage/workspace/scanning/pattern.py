"""Regular expressions in ripgrep's syntax, read into a tree that our own engine can run.

Only what both engines understand is taken, and one character never stands for a line's end. What
ripgrep alone knows (Unicode property classes, text anchors) is an error that says so; what neither
knows (look-around, backreferences) is an error as it is in ripgrep.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn, TypeAlias

from moorage.workspace.search.selection import PatternError

# Bytes that are no UTF-8 are decoded to these; nothing but themselves may match them.
_ALIEN = r"\udc80-\udcff"
ANY_CHARACTER = rf"[^\n{_ALIEN}]"

# What a word is made of, as members of a class.
WORD = r"\w\u0300-\u036f\u200c\u200d"
_DIGIT = r"\d"
_SPACE = r"\t\x0b\x0c\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_PERL = {"w": WORD, "d": _DIGIT, "s": _SPACE}
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\x0b\x0c\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_HEX_LENGTH = {"x": 2, "u": 4, "U": 8}
# Groups, classes and repetitions inside each other; ripgrep has such a bound too.
_DEEPEST = 100
_HIGHEST_COUNT = 100_000
# Set operations name their operands again and again, so a class grows with each of them.
_LONGEST_CLASS = 64 * 1024
_NEWLINE = r"the literal \n is not allowed: a match never crosses lines"


class Character(NamedTuple):
    """Exactly one character, as the source of a Python expression."""

    source: str
    ignores_case: bool = False


class Edge(NamedTuple):
    r"""A place between characters: ``^``, ``$``, ``\b`` or ``\B``."""

    source: str


class Row(NamedTuple):
    """Parts one after the other."""

    parts: tuple[Node, ...]


class Choice(NamedTuple):
    """One of several options, the first that fits."""

    options: tuple[Node, ...]


class Repeat(NamedTuple):
    """A part several times; ``most`` is None without an upper bound."""

    part: Node
    least: int
    most: int | None
    is_lazy: bool


Node: TypeAlias = Character | Edge | Row | Choice | Repeat


class _Flags(NamedTuple):
    ignores_case: bool = False
    is_spaced: bool = False
    swaps_greed: bool = False


def parse(pattern: str, *, ignore_case: bool = False) -> Node:
    """Return the tree of ``pattern``.

    Raises:
        PatternError: it is no expression, or one that only ripgrep can run.
    """
    return _Parser(pattern, _Flags(ignores_case=ignore_case)).parse()


class _Parser:
    """A recursive descent over the pattern's characters."""

    def __init__(self, pattern: str, flags: _Flags) -> None:
        self._text = pattern
        self._at = 0
        self._flags = flags
        self._depth = 0

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._text):
            self._fail("unopened group")
        return node

    def _fail(self, reason: str) -> NoReturn:
        raise PatternError(f"{reason} (at character {self._at + 1})")

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _take(self, complaint: str) -> str:
        char = self._peek()
        if not char:
            self._fail(complaint)
        self._at += 1
        return char

    def _skip(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _skip_spacing(self) -> None:
        while self._flags.is_spaced and (self._peek().isspace() or self._peek() == "#"):
            if self._take("") == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end

    def go_deeper(self) -> None:
        """Count one more thing that stands inside another."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} groups, classes or repetitions inside each other")

    def come_back(self, levels: int = 1) -> None:
        """Leave what was entered."""
        self._depth -= levels

    def _choice(self) -> Node:
        outer = self._flags
        options = [self._row()]
        while self._skip("|"):
            options.append(self._row())
        self._flags = outer  # flags set inside a group end with it
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _row(self) -> Node:
        parts: list[Node] = []
        while True:
            self._skip_spacing()
            if self._peek() in ("", "|", ")"):
                return parts[0] if len(parts) == 1 else Row(tuple(parts))
            node = self._atom()
            if node is not None:
                parts.append(self._repeated(node))

    def _repeated(self, node: Node) -> Node:
        before = self._depth
        while True:
            self._skip_spacing()
            match self._peek():
                case "*":
                    bounds: tuple[int, int | None] = (0, None)
                case "+":
                    bounds = (1, None)
                case "?":
                    bounds = (0, 1)
                case "{":
                    bounds = self._counts()
                case _:
                    self._depth = before
                    return node
            self.go_deeper()
            self._at += 1
            self._skip_spacing()
            is_lazy = self._skip("?") != self._flags.swaps_greed
            node = Repeat(node, bounds[0], bounds[1], is_lazy)

    def _counts(self) -> tuple[int, int | None]:
        """Read up to the closing brace, which stays."""
        found = re.compile(r"\{\s*(\d+)\s*(,?)\s*(\d*)\s*(?=\})").match(self._text, self._at)
        if found is None:
            self._fail("a { must be a count such as {2,3}; write \\{ for the character")
        self._at = found.end()
        if max(len(found[1].lstrip("0")), len(found[3].lstrip("0"))) > len(str(_HIGHEST_COUNT)):
            self._fail(f"a count is higher than {_HIGHEST_COUNT}")
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if most is not None and most < least:
            self._fail("invalid repetition count range, the start must be <= the end")
        if max(least, most or 0) > _HIGHEST_COUNT:
            self._fail(f"a count is higher than {_HIGHEST_COUNT}")
        return least, most

    def _atom(self) -> Node | None:
        """Return the next part, or None after flags that hold for the rest of the group."""
        char = self._take("")
        match char:
            case "(":
                return self._group()
            case "[":
                return self._character(_Class(self).read())
            case ".":
                return Character(ANY_CHARACTER)
            case "^" | "$":
                return Edge(char)
            case "\\":
                return self._escape()
            case _:
                return self._plain(char)

    def _plain(self, char: str) -> Node:
        if char in "*+?{":
            self._fail("repetition operator missing expression")
        if char == "\n":
            self._fail(_NEWLINE)
        return self._character(re.escape(char))

    def _character(self, source: str) -> Character:
        return Character(source, self._flags.ignores_case)

    def _group(self) -> Node | None:
        if self._skip("?"):
            if self._peek() in ("=", "!") or self._peek(2) in ("<=", "<!"):
                self._fail("look-around, including look-ahead and look-behind, is not supported")
            named = re.compile(r"P?<[A-Za-z_][\w.\[\]]*>").match(self._text, self._at)
            if named is not None:
                self._at = named.end()
            else:
                outer = self._flags
                self._read_flags()
                if self._skip(")"):
                    return None
                self._at += 1
                return self._close(outer)
        return self._close(self._flags)

    def _close(self, outer: _Flags) -> Node:
        self.go_deeper()
        node = self._choice()
        if not self._skip(")"):
            self._fail("unclosed group")
        self.come_back()
        self._flags = outer
        return node

    def _read_flags(self) -> None:
        """Read flags up to the ``:`` or ``)``, which stays."""
        is_on = True
        while self._peek() not in (":", ")"):
            match self._take("expected flag but got end of pattern"):
                case "-":
                    is_on = False
                case "i":
                    self._flags = self._flags._replace(ignores_case=is_on)
                case "x":
                    self._flags = self._flags._replace(is_spaced=is_on)
                case "U":
                    self._flags = self._flags._replace(swaps_greed=is_on)
                case "s" | "m" | "u" if is_on or self._text[self._at - 1] == "s":
                    pass  # no line's end is matched, ^ and $ always mean lines, text is Unicode
                case "m" | "u" | "R" as flag:
                    self._fail(f"the flag {flag} needs ripgrep, which is not installed here")
                case _:
                    self._fail("unrecognized flag")

    def _escape(self) -> Node:
        char = self._peek()
        if char in ("b", "B"):
            self._at += 1
            return Edge(f"\\{char}")
        if char.lower() in _PERL and char:
            self._at += 1
            return Character(perl_source(char))
        literal = self.escaped_literal()
        if literal == "\n":
            self._fail(_NEWLINE)
        return self._character(re.escape(literal))

    def escaped_literal(self) -> str:
        """Return the character that the escape stands for; the backslash was read."""
        char = self._take("incomplete escape sequence, reached end of pattern prematurely")
        if char in _HEX_LENGTH:
            return self._hexadecimal(char)
        if char in _CONTROL:
            return _CONTROL[char]
        if char in ("p", "P", "A", "z", "<", ">"):
            self._fail(f"\\{char} needs ripgrep, which is not installed here")
        if char.isdigit():
            self._fail("backreferences are not supported")
        if char.isalpha() or not char.isascii():
            self._fail(f"unrecognized escape sequence \\{char}")
        return char

    def _hexadecimal(self, kind: str) -> str:
        length = _HEX_LENGTH[kind]
        expression = rf"\{{\s*([0-9A-Fa-f]+)\s*\}}|([0-9A-Fa-f]{{{length}}})"
        found = re.compile(expression).match(self._text, self._at)
        if found is None:
            self._fail("invalid hexadecimal digit or missing digits")
        self._at = found.end()
        value = int(found[1] or found[2], 16)
        if value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
            self._fail("the number is no Unicode character")
        return chr(value)

    # What a class reads goes through these, so that it shares the position.
    def skip_spacing(self) -> None:
        """Go past what is not read under the flag x."""
        self._skip_spacing()

    def take(self, complaint: str) -> str:
        """Return the next character and go on."""
        return self._take(complaint)

    def skip(self, text: str) -> bool:
        """Go past ``text`` if it comes next, and say whether it did."""
        return self._skip(text)

    def rest(self) -> str:
        """Return what was not read yet."""
        return self._text[self._at :]

    def fail(self, reason: str) -> NoReturn:
        """Raise the error of this place."""
        self._fail(reason)


class _Class:
    """A bracketed class: members, nested classes, and the set operations between them."""

    def __init__(self, parser: _Parser) -> None:
        self._parser = parser

    def read(self) -> str:
        """Return the source of the class, which matches no line's end; its [ was read."""
        source = self._read()
        return source if re.fullmatch(source, "\n") is None else rf"(?:(?!\n){source})"

    def _read(self) -> str:
        self._parser.go_deeper()
        is_negated = self._parser.skip("^")
        left = self._union(is_first=True)
        while not self._parser.skip("]"):
            operator = self._parser.take("unclosed character class") + self._parser.take("")
            left = self._checked(_combine(operator, left, self._union(is_first=False)))
        self._parser.come_back()
        if left == r"[\n]" and not is_negated:
            self._parser.fail(_NEWLINE)
        if is_negated:
            return rf"(?:(?!{left}){ANY_CHARACTER})"
        return left

    def _checked(self, source: str) -> str:
        if len(source) > _LONGEST_CLASS:
            self._parser.fail("the set operations make the character class too large")
        return source

    def _union(self, *, is_first: bool) -> str:
        plain: list[str] = []
        nested: list[str] = []
        if is_first and self._parser.skip("]"):
            plain.append(r"\]")
        while is_first and self._parser.skip("-"):
            plain.append(r"\-")
        self._parser.skip_spacing()
        while not self._parser.rest().startswith(("]", "&&", "--", "~~")):
            self._member(plain, nested)
            self._parser.skip_spacing()
        sources = [f"[{''.join(plain)}]"] * bool(plain) + nested
        if not sources:
            return "(?!)"
        return sources[0] if len(sources) == 1 else f"(?:{'|'.join(sources)})"

    def _member(self, plain: list[str], nested: list[str]) -> None:
        posix = re.match(r"\[:(\^?)([a-z]+):\]", self._parser.rest())
        if posix is not None and posix[2] in _POSIX:
            self._parser.skip(posix[0])
            source = _POSIX[posix[2]]
            nested.append(f"(?:(?![{source}]){ANY_CHARACTER})" if posix[1] else f"[{source}]")
        elif self._parser.skip("["):
            nested.append(self._checked(self._read()))
        else:
            self._range(plain, nested)

    def _range(self, plain: list[str], nested: list[str]) -> None:
        first = self._literal()
        if len(first) > 1:  # a class such as \d
            nested.append(first)
            return
        rest = self._parser.rest()
        if not rest.startswith("-") or rest.startswith(("-]", "--")):
            plain.append(_in_class(first))
            return
        self._parser.skip("-")
        last = self._literal()
        if len(last) > 1:
            self._parser.fail("invalid range boundary, must be a literal")
        if last < first:
            self._parser.fail("invalid character class range, the start must be <= the end")
        plain.append(f"{_in_class(first)}-{_in_class(last)}")

    def _literal(self) -> str:
        """Return one character, or the source of a class."""
        char = self._parser.take("unclosed character class")
        if char != "\\":
            return char
        rest = self._parser.rest()
        if rest[:1] and rest[0].lower() in _PERL:
            return perl_source(self._parser.take(""))
        if rest[:1] in ("b", "B"):
            self._parser.fail("invalid escape sequence found in character class")
        return self._parser.escaped_literal()


def perl_source(letter: str) -> str:
    r"""Return the source of ``\w``, ``\d``, ``\s`` or their opposites, never a line's end."""
    members = _PERL[letter.lower()]
    return rf"[^{members}\n{_ALIEN}]" if letter.isupper() else f"[{members}]"


def _combine(operator: str, left: str, right: str) -> str:
    match operator:
        case "&&":
            return f"(?:(?={left}){right})"
        case "--":
            return f"(?:(?!{right}){left})"
        case _:
            return f"(?:(?!{right}){left}|(?!{left}){right})"


def _in_class(char: str) -> str:
    r"""Return a character as a member of a Python class; ``\n`` keeps its readable form."""
    return r"\n" if char == "\n" else re.escape(char)
