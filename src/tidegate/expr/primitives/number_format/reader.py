"""Reads numbers by a pattern: what to_number(text, pattern) gives.

    read_number("12,454.8-", pattern "99G999D9S")      Decimal("-12454.8")

Each node of the pattern takes something of the text: a digit or the point, a sign, a separator if it stands there, and anything at
all for a character that stands for itself. Digits beyond those of the pattern are not read.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

from tidegate.expr.primitives.number_format.pattern import NumberPattern
from tidegate.expr.primitives.row_loop import RowFailure

_DATA = "0123456789.,+-"
_EXACT = Context(prec=2000, rounding=ROUND_HALF_UP)


def read_number(text: str, pattern: NumberPattern) -> Decimal:
    """The number that a text spells by a pattern; raises RowFailure if it spells none."""
    for word in ("EEEE", "RN"):
        if pattern.has(word):
            raise RowFailure(f'"{word}" not supported for input')
    reader = _Reader(text, pattern)
    spelled = reader.read()
    if not any(letter.isdigit() for letter in spelled):
        raise RowFailure(f'invalid input syntax for type numeric: "{spelled}"')
    number = Decimal(spelled)
    precision = pattern.pre + pattern.multi + reader.after
    if number.copy_abs() >= Decimal(10) ** (precision - reader.after):
        raise RowFailure("numeric field overflow")
    return number.scaleb(-pattern.multi, context=_EXACT)


class _Reader:
    """Walks a pattern along a text."""

    def __init__(self, text: str, pattern: NumberPattern) -> None:
        # One letter for each byte, as PostgreSQL counts where a digit may stand.
        self.text, self.pattern = text.encode().decode("latin-1"), pattern
        self.at = 0
        self.sign = " "
        self.digits = ""
        self.before = self.after = 0
        self.pointed = False

    def read(self) -> str:
        """What was read: a sign, digits, perhaps a point and digits."""
        for kind, written in self.pattern.nodes:
            if self.at >= len(self.text):
                break
            if kind == "text":
                self._pass()
            else:
                self._word(written.upper())
        return self.sign + (self.digits.removesuffix("."))

    @property
    def current(self) -> str:
        """The letter that is read next; empty at the end."""
        return self.text[self.at : self.at + 1]

    def _word(self, word: str) -> None:
        match word:
            case "9" | "0" | "." | "D":
                self._digit(word)
                self.at += 1
            case "," | "G":
                self.at += self.pattern.has("FM") is False and self.current == ","
            case "L":
                self._skip(1)
            case "TH":
                if not self.pattern.has("."):
                    self._skip(2)
            case "MI" | "PL" | "SG":
                own = {"MI": "-", "PL": "+", "SG": "+-"}[word]
                if self.current in own:
                    self.sign = self.current
                    self.at += 1
                else:
                    self._skip(1)
            case _:
                pass

    def _pass(self) -> None:
        """Passes one character, whatever it is."""
        self.at += 1
        while "\x80" <= self.current < "\xc0":
            self.at += 1

    def _skip(self, count: int) -> None:
        """Skips up to `count` characters that are no part of a number."""
        while count and self.current and self.current not in _DATA:
            self._pass()
            count -= 1

    def _digit(self, word: str) -> None:
        self.at += self.current == " "
        if self.sign == " " and word in "90" and self.before + self.after == 0:
            self._first_sign()
        is_read = self._take()
        if not self.current or self.sign != " " or self.before + self.after == 0:
            return
        if self.pattern.has("S"):
            following = self.text[self.at + 1 : self.at + 2]
            if is_read and following and following in "+-":
                self.at += 1
                self.sign = following
        elif not is_read and self.pattern.has("PL", "MI", "SG") and self.current in "+-":
            self.sign = self.current

    def _first_sign(self) -> None:
        """A sign before the first digit."""
        letter = "-" if self.current == "<" and self.pattern.has("PR") else self.current
        if letter and letter in "+-":
            self.sign = letter
            self.at += 1

    def _take(self) -> bool:
        """Takes a digit or the point; whether it did."""
        letter = self.current
        if letter and letter in "0123456789":
            if self.pointed and self.after == self.pattern.post:
                return False
            self.digits += letter
            self.after += self.pointed
            self.before += not self.pointed
            return True
        if letter == "." and self.pattern.has(".") and not self.pointed:
            self.digits += "."
            self.pointed = True
            return True
        return False
