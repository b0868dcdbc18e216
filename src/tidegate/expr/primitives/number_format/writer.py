"""Writes numbers by a pattern: what to_char(number, pattern) gives.

    write_number("1234.5", "+", 1, pattern "9,999.99")      ' 1,234.50'

The digits come as text, rounded to the digits that the pattern has behind the point. `DigitWriter` walks the pattern and fills in
blanks, zeros, separators and the sign where PostgreSQL puts them: the sign stands directly before the first digit, and without FM a
number that is not negative has a space there.

| number | pattern | text |
|---|---|---|
| -485 | `999PR` | `<485>` |
| 0.1 | `99.99` | `   .10` |
| 12 | `FM9999.99` | `12.` |
| 485 | `999th` | ` 485th` |
| 1234 | `99` | ` ##` |
"""

from __future__ import annotations

from tidegate.expr.primitives.number_format.pattern import NumberPattern
from tidegate.expr.primitives.row_loop import RowFailure

_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
ROMAN_WIDTH = 15


def roman(number: int) -> str:
    """A number of 1 to 3999 in Roman digits; hashes for others."""
    if not 1 <= number <= 3999:
        return "#" * ROMAN_WIDTH
    letters = []
    for value, digits in _ROMAN:
        count, number = divmod(number, value)
        letters.append(digits * count)
    return "".join(letters)


def write_roman(number: int, pattern: NumberPattern) -> str:
    """A pattern with RN: the Roman number in the place of each RN, fifteen letters wide without FM."""
    text = roman(number)
    text = text if pattern.has("FM") else text.rjust(ROMAN_WIDTH)
    out = []
    for kind, written in pattern.nodes:
        match "" if kind == "text" else written.upper():
            case "":
                out.append(written)
            case "RN":
                out.append(text if written == "RN" else text.lower())
            case "L":
                out.append(" ")
            case "," | "G" | "MI" | "PL" if not pattern.has("FM"):
                out.append(" ")
            case _:
                pass
    return "".join(out)


def write_number(digits: str, sign: str, pre: int, pattern: NumberPattern) -> str:
    """`digits` (with a point, without a sign) by a pattern that has `pre` digits before the point."""
    whole = digits.partition(".")[0]
    spaces = max(0, pre - len(whole))
    if len(whole) > pre:
        digits = "#" * pre + "." + "#" * pattern.post
    return DigitWriter(digits, sign, spaces, pre, pattern).write()


def ordinal(digits: str, *, upper: bool) -> str:
    """The English ending of an ordinal number: st, nd, rd or th."""
    if not digits[-1:].isdigit():
        raise RowFailure(f'"{digits}" is not a number')
    teen = digits[-2:-1] == "1"
    ending = {"1": "st", "2": "nd", "3": "rd"}.get("" if teen else digits[-1], "th")
    return ending.upper() if upper else ending


class DigitWriter:
    """Writes one number by walking the nodes of a pattern."""

    def __init__(self, digits: str, sign: str, spaces: int, pre: int, pattern: NumberPattern) -> None:
        """`spaces` is how many places before the point stay empty."""
        self.digits, self.sign, self.spaces, self.pattern = digits, sign, spaces, pattern
        self.fills = not pattern.has("FM")
        self.brackets = pattern.has("PR") and (sign == "-" or self.fills)
        self.sign_place = pattern.sign
        if pattern.has("PL", "MI", "SG"):
            self.signed = not (pattern.has("PL") and not pattern.has("MI", "SG"))
        else:
            self.signed = sign == "+" and not self.fills and not pattern.has("S")
            if pattern.sign == "before" and pattern.digits_before_sign == pattern.pre:
                self.sign_place = "behind"
        self.count = pattern.post + pre - 1 + (not self.signed and spaces == 0)
        self.last = self._last_relevant()
        self.place = self.at = 0
        self.inside = False
        self.out: list[str] = []

    def _last_relevant(self) -> int | None:
        """With FM and a point: the last digit that is written, behind which zeros are dropped."""
        point = self.digits.find(".")
        if self.fills or not self.pattern.has(".") or point < 0:
            return None
        last = max(point, len(self.digits.rstrip("0")) - 1)
        if self.pattern.zero_end > self.spaces:
            last = max(last, min(len(self.digits) - 1, self.pattern.zero_end - self.spaces))
        return last

    def write(self) -> str:
        """The text."""
        for kind, written in self.pattern.nodes:
            if kind == "text":
                self.out.append(written)
            else:
                self._word(written)
        return "".join(self.out).partition("\0")[0]

    def _word(self, written: str) -> None:
        match written.upper():
            case "9" | "0" | "." | "D":
                self._digit(written)
            case "," | "G":
                if self.inside or self.fills:
                    self.out.append("," if self.inside else " ")
            case "L":
                self.out.append(" ")
            case "TH":
                if not (self.digits.startswith("#") or self.sign == "-" or self.pattern.has(".")):
                    self.out.append(ordinal(self.digits, upper=written == "TH"))
            case "MI" | "PL" as word:
                own = "-" if word == "MI" else "+"
                if self.sign == own or self.fills:
                    self.out.append(own if self.sign == own else " ")
            case "SG":
                self.out.append(self.sign)
            case _:
                pass

    def _lone_zero(self) -> bool:
        """Whether the zero before the point is left out: 0.1 by 9.9 is ` .1`."""
        starts = self.at == 0 and self.digits.startswith("0")
        return self.pattern.zero_start is None and starts and self.pattern.post != 0

    def _ends_with_point(self) -> bool:
        return self.last is not None and self.digits[self.last] == "."

    def _digit(self, written: str) -> None:
        zero = self.pattern.zero_start
        self.inside = False
        reached = self.place >= self.spaces or zero == self.place
        if not self.signed and reached and (not self._lone_zero() or self._ends_with_point()):
            self._sign()
        if self.place < self.spaces and (zero is None or zero > self.place):
            if self.fills:
                self.out.append(" ")
        elif self.place < self.spaces:
            self.out.append("0")
            self.inside = True
        else:
            self._next(written)
        self._close()
        self.place += 1

    def _sign(self) -> None:
        """Writes the sign before the first digit."""
        if self.pattern.has("S"):
            if self.sign_place != "before":
                return
            self.out.append(self.sign)
        elif self.brackets:
            self.out.append(" " if self.sign == "+" else "<")
        elif self.sign == "-" or self.fills:
            self.out.append("-" if self.sign == "-" else " ")
        self.signed = True

    def _next(self, written: str) -> None:
        """Writes the next digit, or the point."""
        letter = self.digits[self.at : self.at + 1]
        if letter == ".":
            self.out.append(".")
        elif self.last is not None and self.at > self.last and written != "0":
            pass
        elif self._lone_zero():
            if self.fills:
                self.out.append(" ")
            elif self._ends_with_point():
                self.out.append("0")
        else:
            # Beyond the last digit PostgreSQL writes the end of its text, and so drops what follows: 9.PL of 1 is ' 1'.
            self.out.append(letter or "\0")
            self.inside = True
        self.at += bool(letter)

    def _close(self) -> None:
        """Writes what stands behind the last digit: a bracket, or the sign."""
        end = self.count + (self.spaces > 0) + self.pattern.has(".")
        if self.last is not None and self.last == self.at:
            end = self.place
        if self.place + 1 != end:
            return
        if self.signed and self.brackets:
            self.out.append(" " if self.sign == "+" else ">")
        elif self.pattern.has("S") and self.sign_place == "behind":
            self.out.append(self.sign)
