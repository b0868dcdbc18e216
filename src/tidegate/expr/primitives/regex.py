r"""Translates PostgreSQL's regular expressions to RE2, which runs them.

RE2 takes time linear in the text whatever the pattern, so a user's pattern can never hang a query; in exchange it has no back
references and no lookaround, and such a pattern is an error. The common features differ in syntax:

| PostgreSQL | RE2 | |
|---|---|---|
| `.` | `(?s).` | matches a line break too, unless the option n is given |
| `\y`, `\m`, `\M`, `[[:<:]]` | `\b` | start or end of a word, where the pattern shows which |
| `\w`, `[[:alpha:]]` | `[\p{L}…]` | Unicode's letters, not only ASCII's |
| `\u00e9` | `\x{e9}` | |
| `{` | `\{` | where no number follows |

A pattern that starts with `^` and plain letters only matches texts in a range (`text_prefix.py`), given by `Regex.prefix`:

>>> compile_regex("^INFO: .*").prefix, compile_regex("^INFO: .*").ending
('INFO: ', <RegexEnding.ANYTHING: 'anything'>)
>>> compile_regex("a{2,1}").error
'invalid regular expression: invalid repetition count(s)'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

MAX_REPEAT = 255
MAX_GROUPS = 200
"""Nesting of groups; the body of each is kept, so their cost grows with the square."""
DIGITS = tuple("0123456789")
WORD = r"\p{L}\p{Nd}\p{Nl}_"
SPACE = r" \t\n\r\f\v\x{1680}\x{2000}-\x{2006}\x{2008}-\x{200a}\x{2028}\x{2029}\x{205f}\x{3000}"
CLASSES = {
    "alpha": r"\p{L}\p{Nl}", "digit": "0-9", "alnum": r"\p{L}\p{Nd}\p{Nl}", "upper": r"\p{Lu}",
    "lower": r"\p{Ll}", "space": SPACE, "blank": r" \t", "punct": r"\p{P}\p{S}", "xdigit": "0-9A-Fa-f",
    "cntrl": r"\p{Cc}", "word": WORD,
    "graph": r"\p{L}\p{M}\p{N}\p{P}\p{S}", "print": r" \p{L}\p{M}\p{N}\p{P}\p{S}", "ascii": r"\x00-\x7f",
}  # fmt: skip
SHORTHAND = {"d": "0-9", "s": SPACE, "w": WORD}
CONTROL = {"a": 7, "b": 8, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "0": 0}
LINE_OPTIONS = {
    "s": (True, False),
    "n": (False, True),
    "m": (False, True),
    "p": (False, False),
    "w": (True, True),
}
"""Options for line breaks: whether `.` matches one, and whether `^` and `$` match at lines."""


REASONS = {
    "no argument for repetition operator": "quantifier operand invalid",
    "bad repetition operator": "quantifier operand invalid",
    "invalid character class range": "invalid character range",
}


class RegexEnding(Enum):
    """What may follow the literal prefix of a pattern."""

    NOTHING = "nothing"
    ANYTHING = "anything"
    SOMETHING = "something"
    """Text that the rest of the pattern restricts."""


class Regex(NamedTuple):
    """A pattern for Arrow's kernels, or its error."""

    re2: str = ""
    error: str | None = None
    bodies: tuple[str, ...] = ()
    """The bodies of the capturing groups, which are named g1, g2, …"""
    prefix: str = ""
    """The start of every matching text (in lower case if `folded`)."""
    ending: RegexEnding = RegexEnding.SOMETHING
    folded: bool = False
    """Whether case is ignored."""


class _RegexSyntaxError(Exception):
    pass


class Atom(NamedTuple):
    """A piece of the pattern at its outermost level: its kind, and its letter if it is one."""

    kind: str
    letter: str = ""


MAX_PATTERN_LENGTH = 10_000
"""The longest pattern in characters; longer ones, as computed by repeat(), would take minutes to parse."""


def compile_regex(pattern: str, options: str = "") -> Regex:
    """The pattern translated to RE2 and checked; an invalid or unsupported one has an `error`."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        return Regex(error="invalid regular expression: regular expression is too complex")
    return _compile_cached(pattern, options)


@lru_cache(maxsize=1024)
def _compile_cached(pattern: str, options: str) -> Regex:
    try:
        translation = _Translation.of(pattern, options)
    except _RegexSyntaxError as wrong:
        return Regex(error=str(wrong))
    regex = translation.finish()
    try:
        # For an empty array the kernel would not compile the pattern.
        pc.match_substring_regex(pa.array([""]), regex.re2)
    except pa.ArrowInvalid as invalid:
        return Regex(error=f"invalid regular expression: {_reason(invalid)}")
    return regex


def _reason(invalid: pa.ArrowInvalid) -> str:
    """RE2's message, in PostgreSQL's words where they exist."""
    message = (str(invalid).partition(": ")[2].splitlines() or ["not supported"])[0]
    return next((words for start, words in REASONS.items() if message.startswith(start)), message)


def _syntax_error(reason: str) -> _RegexSyntaxError:
    return _RegexSyntaxError(f"invalid regular expression: {reason}")


def _is_word(letter: str) -> bool:
    r"""Whether RE2's `\b` treats this as a word character."""
    return letter.isascii() and (letter.isalnum() or letter == "_")


def escape_regex(text: str) -> str:
    """Literal text escaped for RE2."""
    return "".join(letter if letter.isalnum() or letter in "_ " else _point(ord(letter)) for letter in text)


def _point(code: int) -> str:
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code < 0xE000:
        raise _syntax_error("invalid escape \\ sequence")
    return f"\\x{{{code:x}}}"


@dataclass
class _Translation:
    """The translation of a pattern, from left to right."""

    text: str
    fold: bool = False
    dot_all: bool = True
    lines: bool = False
    expanded: bool = False
    literal: bool = False
    at: int = 0
    out: list[str] = field(default_factory=list)
    atoms: list[Atom] = field(default_factory=list)
    open: list[tuple[int, int]] = field(default_factory=list)
    """The group number (0: not capturing) and position in `out` of each open parenthesis."""
    bodies: dict[int, str] = field(default_factory=dict)
    groups: int = 0

    @staticmethod
    def of(pattern: str, options: str) -> _Translation:
        walk = _Translation(pattern)
        walk.set_options(options)
        if pattern.startswith("***="):
            walk.text, walk.literal = pattern[4:], True
        elif pattern.startswith("***:"):
            walk.text = pattern[4:]
        elif pattern.startswith("***"):
            raise _syntax_error("quantifier operand invalid")
        embedded = None if walk.literal else re.match(r"\(\?([a-z]+)\)", walk.text)
        if embedded:
            walk.set_options(embedded[1])
            walk.text = walk.text[embedded.end() :]
        if walk.literal:
            walk.out = [escape_regex(walk.text)]
            return walk
        while walk.at < len(walk.text):
            walk.step()
        if walk.open:
            raise _syntax_error("parentheses () not balanced")
        return walk

    def set_options(self, options: str) -> None:
        for option in options:
            match option:
                case "i" | "c":
                    self.fold = option == "i"
                case "s" | "n" | "m" | "p" | "w":
                    self.dot_all, self.lines = LINE_OPTIONS[option]
                case "x" | "t":
                    self.expanded = option == "x"
                case "q":
                    self.literal = True
                case _:
                    raise _RegexSyntaxError(f'invalid regular expression option: "{option}"')

    def put(self, text: str, kind: str = "other", letter: str = "") -> None:
        self.out.append(text)
        if not self.open:
            self.atoms.append(Atom(kind, letter))

    def step(self) -> None:
        letter = self.text[self.at]
        self.at += 1
        match letter:
            case "\\":
                self.escape()
            case "[":
                self.bracket()
            case "(":
                self.parenthesis()
            case ")":
                if not self.open:
                    raise _syntax_error("parentheses () not balanced")
                number, start = self.open.pop()
                if number:
                    self.bodies[number] = "".join(self.out[start:])
                self.put(")")
            case "{" if self.text[self.at : self.at + 1] in DIGITS:
                self.repetition()
            case "." | "^" | "$" | "|":
                self.put(letter, letter)
            case "*" | "+" | "?":
                self.put(letter, "times", letter)
            case " " | "\t" | "\n" if self.expanded:
                pass
            case "#" if self.expanded:
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            case _:
                self.put(escape_regex(letter), "letter", letter)

    def parenthesis(self) -> None:
        if self.text.startswith("?:", self.at):
            self.at += 2
            self.put("(?:")
            self.open.append((0, len(self.out)))
            return
        if self.text.startswith("?", self.at):
            ahead = self.text[self.at + 1 : self.at + 2] in ("=", "!", "<")
            raise _syntax_error(
                "lookahead and lookbehind are not supported" if ahead else "quantifier operand invalid"
            )
        if len(self.open) >= MAX_GROUPS:
            raise _syntax_error("regular expression is too complex")
        self.groups += 1
        self.put(f"(?P<g{self.groups}>")
        self.open.append((self.groups, len(self.out)))

    def repetition(self) -> None:
        counts = re.compile(r"([0-9]+)(,([0-9]*))?\}").match(self.text, self.at)
        if counts is None:
            balanced = "}" in self.text[self.at :]
            raise _syntax_error("invalid repetition count(s)" if balanced else "braces {} not balanced")
        least, most = (int(digits.lstrip("0")[:9] or 0) for digits in (counts[1], counts[3] or counts[1]))
        if max(least, most) > MAX_REPEAT or most < least:
            raise _syntax_error("invalid repetition count(s)")
        self.at = counts.end()
        self.put("{" + counts[0], "times")

    def escape(self) -> None:
        letter = self.text[self.at : self.at + 1]
        if letter in ("m", "M", "y", "Y", "A", "Z"):
            self.at += 1
            self.put(self.constraint(letter), "^" if letter == "A" else "other")
        elif letter in ("D", "S", "W"):
            self.at += 1
            self.put(f"[^{SHORTHAND[letter.lower()]}]")
        elif letter in SHORTHAND:
            self.at += 1
            self.put(f"[{SHORTHAND[letter]}]")
        else:
            code = self.code()
            self.put(_point(code), "letter", chr(code))

    def code(self) -> int:
        """The character of an escape, inside a bracket or outside."""
        letter = self.text[self.at : self.at + 1]
        hexadecimal = re.compile(r"u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]+)").match(
            self.text, self.at
        )
        if hexadecimal:
            self.at = hexadecimal.end()
            code = int(hexadecimal[hexadecimal.lastindex or 0], 16)
            _point(code)
            return code
        self.at += 1
        if letter in CONTROL:
            return CONTROL[letter]
        if letter == "B":
            return ord("\\")
        if letter in DIGITS:
            raise _syntax_error("back references are not supported")
        if not letter or letter.isalnum():
            raise _syntax_error("invalid escape \\ sequence")
        return ord(letter)

    def constraint(self, letter: str) -> str:
        r"""`\m` and `\M` as `\b`, which is right only next to a letter; elsewhere RE2 has no equivalent."""
        simple = {"y": r"\b", "Y": r"\B", "A": r"\A", "Z": r"\z"}
        if letter in simple:
            return simple[letter]
        if letter == "m":
            next_to_word = re.compile(r"([A-Za-z0-9_]|\\[wd])(?![*?{])").match(self.text, self.at) is not None
        else:
            before = [a for a in self.atoms[-1:] if not self.open]
            next_to_word = bool(before) and (
                _is_word(before[0].letter) or self.out[-1] in (f"[{WORD}]", "[0-9]")
            )
        if not next_to_word:
            raise _syntax_error(f"\\{letter} is only supported next to a letter or digit")
        return r"\b"

    def bracket(self) -> None:
        for edge, letter in (("[:<:]]", "m"), ("[:>:]]", "M")):
            if self.text.startswith(edge, self.at):
                self.at += len(edge)
                self.put(self.constraint(letter))
                return
        negated = self.text.startswith("^", self.at)
        self.at += negated
        items: list[str] = []
        while not self.text.startswith("]", self.at) or not items:
            if self.at >= len(self.text):
                raise _syntax_error("brackets [] not balanced")
            items.append(self.bracket_item(last=bool(items) and items[-1] != "-"))
        self.at += 1
        if negated and not self.dot_all:
            items.append(r"\n")
        self.put(f"[{'^' if negated else ''}{''.join(items)}]")

    def bracket_item(self, last: bool) -> str:
        named = re.compile(r"\[([:.=])(.+?)\1\]").match(self.text, self.at)
        if named:
            self.at = named.end()
            if named[1] == ":" and named[2] not in CLASSES:
                raise _syntax_error("invalid character class")
            if named[1] != ":" and len(named[2]) != 1:
                raise _syntax_error("invalid collating element")
            # Ignoring case, upper and lower both mean any letter.
            name = "alpha" if self.fold and named[2] in ("upper", "lower") else named[2]
            return CLASSES[name] if named[1] == ":" else _point(ord(name))
        letter = self.text[self.at]
        self.at += 1
        if letter == "\\":
            short = self.text[self.at : self.at + 1]
            if short in ("D", "S", "W"):
                raise _syntax_error(f"\\{short} within brackets is not supported")
            if short in SHORTHAND:
                self.at += 1
                return SHORTHAND[short]
            return _point(self.code())
        # A minus between two items is a range; at either end it is literal.
        if letter == "-" and last and not self.text.startswith("]", self.at):
            return "-"
        return escape_regex(letter)

    def finish(self) -> Regex:
        # PostgreSQL's `.` matches a line break, RE2's only with (?s).
        flags = "".join(f for f, on in (("s", self.dot_all), ("m", self.lines), ("i", self.fold)) if on)
        re2 = f"(?{flags})" * bool(flags) + "".join(self.out)
        bodies = tuple(self.bodies[i] for i in sorted(self.bodies))
        prefix, ending = ("", RegexEnding.SOMETHING) if self.lines or self.literal else _anchored(self.atoms)
        if self.fold:
            # Ignoring case, 's' also matches 'ſ', which `lower` keeps; no other ASCII letter has such a partner.
            prefix, ending = re.sub(r"(?s)[^ -RT-rt-~].*", "", prefix).lower(), RegexEnding.SOMETHING
        return Regex(re2, None, bodies, prefix, ending, self.fold)


def _anchored(atoms: list[Atom]) -> tuple[str, RegexEnding]:
    """The literal prefix of an anchored pattern, and what may follow it."""
    if not atoms or atoms[0].kind != "^" or any(atom.kind == "|" for atom in atoms):
        return "", RegexEnding.SOMETHING
    size = next((i for i, atom in enumerate(atoms[1:]) if atom.kind != "letter"), len(atoms) - 1)
    rest = [atom.letter if atom.kind == "times" else atom.kind for atom in atoms[1 + size :]]
    if atoms[1 + size :] and atoms[1 + size].kind == "times":
        # The quantifier applies to the last letter: ^ab* matches 'a'.
        return "".join(atom.letter for atom in atoms[1:size]), RegexEnding.SOMETHING
    prefix = "".join(atom.letter for atom in atoms[1 : 1 + size])
    if rest == ["$"]:
        return prefix, RegexEnding.NOTHING
    return prefix, RegexEnding.ANYTHING if not rest or rest == [".", "*"] else RegexEnding.SOMETHING
