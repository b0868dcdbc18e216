"""Time zones as two sorted arrays, so that AT TIME ZONE is one binary search for all rows.

A zone is a list of instants at which its offset from UTC changes. They are read from the `tzdata` package, never from the machine,
so that a stored result does not depend on where it was computed; after the last recorded instant the zone's rule
(`CET-1CEST,M3.5.0,M10.5.0/3`) is unrolled to year 9999.

A local time may occur twice (clocks set back) or not at all (set forward). As in PostgreSQL, the first kind is the later instant,
and the second kind is read with the offset before the change. Both follow from one search: the new offset holds from the local
time that the new clock shows at the change.

>>> berlin = find_zone("europe/berlin")
>>> noon = np.array([1_704_110_400_000_000])            # 2024-01-01 12:00 UTC
>>> (berlin.offset_at(noon) // 3_600_000_000).tolist()
[1]

A name is looked up as in PostgreSQL: abbreviations first (`EST` is always UTC-5), then names in any case, then POSIX offsets, whose
sign is inverted: `+02` and `XYZ+2` lie west of Greenwich. Unlike in PostgreSQL, an abbreviation whose meaning has changed over
time (`MSK`) stands for its present offset.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import numpy as np

from tidegate.expr.primitives.time.calendar import LAST_MICRO, MICROS_A_DAY, MICROS_A_SECOND, Ints, days_of

_HOURS_EAST = {
    "UTC UCT UT GMT Z ZULU WET AZOST EGST": 0,
    "CET MET MEZ BST WAT WETDST": 1,
    "CEST MEST MESZ CETDST METDST EET SAST IST BDST": 2,
    "EEST EETDST IDT MSK FET EAT VOLT": 3,
    "IRT": 3.5,
    "MSD MUT RET SCT AZT AZST GET GEST AMST": 4,
    "AFT": 4.5,
    "PKT UZT TJT TMT MVT TFT YEKT MUST MAWT": 5,
    "LKT": 5.5,
    "NPT": 5.75,
    "BDT BTT ALMT KGT PKST XJT OMST UZST KGST IOT YEKST OMSST": 6,
    "MMT": 6.5,
    "ICT CXT KRAT NOVT ALMST WAST DAVT KRAST NOVST": 7,
    "SGT HKT AWST PHT MYT BNT BORT CCT IRKT ULAT WADT IRKST": 8,
    "ACWST": 8.75,
    "JST KST AWSST WDT YAKT PWT JAYT ULAST YAKST": 9,
    "ACST CAST": 9.5,
    "AEST VLAT CHUT PGT DDUT KDT LIGT MPT TRUT YAPT VLAST": 10,
    "ACDT ACSST CADT SADT LHST": 10.5,
    "AEDT AESST MAGT VUT PONT LHDT KOST MAGST": 11,
    "NZST NZT FJT MHT TVT WAKT WFT GILT PETT ANAT ANAST PETST": 12,
    "CHAST": 12.75,
    "NZDT FJST TOT TKT": 13,
    "CHADT": 13.75,
    "LINT": 14,
    "AZOT EGT FNST": -1,
    "BRST FNT UYST WGST PMDT": -2,
    "NDT": -2.5,
    "BRT BRA ART ARST UYT ADT CLST GFT PMST WGT PYST PYT FKST FKT CLT": -3,
    "NST NFT": -3.5,
    "AST EDT BOT AMT GYT VET": -4,
    "EST CDT COT PET ACT EASST EAST": -5,
    "CST MDT GALT": -6,
    "MST PDT": -7,
    "PST AKDT": -8,
    "AKST GAMT": -9,
    "MART": -9.5,
    "HST TAHT CKT": -10,
    "NUT": -11,
}
ABBREVIATIONS = {name: int(hours * 3600) for names, hours in _HOURS_EAST.items() for name in names.split()}
"""Seconds east of Greenwich of every abbreviation."""

_POSIX = re.compile(r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]+>)?([+-]?)(\d{1,3})(?::?([0-5]\d))?(?::?([0-5]\d))?$")


@dataclass(frozen=True, eq=False)
class Zone:
    """Instants of change in UTC, and the eastern offsets between them; all in microseconds."""

    changes: np.ndarray
    offsets: np.ndarray
    """One longer than `changes`."""
    local_changes: np.ndarray
    """The local time of the new offset at each change."""

    @property
    def is_fixed(self) -> bool:
        """Whether the offset never changes, so that conversion keeps the order of times."""
        return len(self.offsets) == 1

    def offset_at(self, instant: Ints) -> Ints:
        """The offset at instants of UTC."""
        result: Ints = self.offsets[np.searchsorted(self.changes, instant, side="right")]
        return result

    def offset_of_local(self, local: Ints) -> Ints:
        """The offset that applies to local times."""
        result: Ints = self.offsets[np.searchsorted(self.local_changes, local, side="right")]
        return result

    def period(self, instant: Ints) -> Ints:
        """The number of the period between two changes; within one, conversion keeps the order."""
        return np.searchsorted(self.changes, instant, side="right")

    def local_period(self, local: Ints) -> Ints:
        """The number of the period of local times."""
        return np.searchsorted(self.local_changes, local, side="right")


def _zone(changes: np.ndarray, offsets: np.ndarray) -> Zone:
    changes, offsets = changes * MICROS_A_SECOND, offsets * MICROS_A_SECOND
    return Zone(changes, offsets, np.maximum.accumulate(changes + offsets[1:]) if len(changes) else changes)


@lru_cache(maxsize=1024)
def find_zone(name: str) -> Zone | None:
    """The zone of that name, or None."""
    seconds = ABBREVIATIONS.get(name.upper())
    if seconds is None:
        full = _names().get(name.lower())
        if full is not None:
            return _read(full)
        seconds = _posix_seconds(name)
    return None if seconds is None else fixed_zone(seconds)


def fixed_zone(seconds: int) -> Zone:
    """A zone with a constant offset, in seconds east."""
    return _zone(np.zeros(0, np.int64), np.array([seconds], np.int64))


def _posix_seconds(name: str) -> int | None:
    match = _POSIX.match(name)
    if match is None:
        return None
    sign, hours, minutes, seconds = match.groups()
    if int(hours) > 167:
        return None
    total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return total if sign == "-" else -total


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    names = (resources.files("tzdata") / "zones").read_text("utf-8").split()
    return {name.lower(): name for name in names if name != "Factory"}


def _read(name: str) -> Zone:
    """Reads a TZif file (RFC 8536): its second block, of 64 bits, and the rule in its last line."""
    raw = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    header = struct.Struct(">4s1s15x6l")
    _, _, utc_flags, std_flags, leaps, times, types, letters = header.unpack_from(raw)
    start = header.size + times * 5 + types * 6 + letters + leaps * 8 + std_flags + utc_flags
    _, _, utc_flags, std_flags, leaps, times, types, letters = header.unpack_from(raw, start)
    at = start + header.size
    changes = np.frombuffer(raw, ">i8", times, at).astype(np.int64)
    which = np.frombuffer(raw, np.uint8, times, at + times * 8)
    table = np.frombuffer(
        raw, np.dtype([("offset", ">i4"), ("dst", "u1"), ("name", "u1")]), types, at + times * 9
    )
    at += times * 9 + types * 6 + letters + leaps * 12 + std_flags + utc_flags
    offsets = table["offset"].astype(np.int64)[np.concatenate([[0], which]).astype(np.intp)]
    rule_changes, rule_offsets = _rule(raw[at:].strip().decode("ascii"))
    after_table = rule_changes > changes[-1] if len(changes) else np.ones(len(rule_changes), bool)
    return _zone(
        np.concatenate([changes, rule_changes[after_table]]),
        np.concatenate([offsets, rule_offsets[after_table]]),
    )


_RULE_NAME = r"(?:[A-Za-z]+|<[^>]+>)"
_RULE_TIME = r"[+-]?\d+(?::\d+)?(?::\d+)?"
_RULE = re.compile(
    rf"{_RULE_NAME}({_RULE_TIME}){_RULE_NAME}({_RULE_TIME})?,([MJ\d.]+)(?:/({_RULE_TIME}))?,([MJ\d.]+)(?:/({_RULE_TIME}))?$"
)


def _rule(text: str) -> tuple[np.ndarray, np.ndarray]:
    """The changes by a rule like `CET-1CEST,M3.5.0,M10.5.0/3` from 1900 to 9999, and the offsets after."""
    match = _RULE.match(text)
    if match is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    standard = -_clock(match[1])
    summer = -_clock(match[2]) if match[2] else standard + 3600
    years = np.arange(1900, 10_000, dtype=np.int64)
    begin = _yearly(match[3], years) * 86_400 + _clock(match[4] or "2") - standard
    end = _yearly(match[5], years) * 86_400 + _clock(match[6] or "2") - summer
    changes = np.concatenate([begin, end])
    offsets = np.concatenate([np.full(len(years), summer), np.full(len(years), standard)])
    order = np.argsort(changes, kind="stable")
    order = order[changes[order] <= (LAST_MICRO + MICROS_A_DAY) // MICROS_A_SECOND]
    return changes[order], offsets[order]


def _clock(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = [*map(int, text.lstrip("+-").split(":")), 0, 0][:3]
    return sign * (hours * 3600 + minutes * 60 + seconds)


def _yearly(text: str, years: Ints) -> Ints:
    """The day in each year named by M3.5.0 (the last Sunday in March), J60 or 59."""
    ones = np.ones_like(years)
    if text.startswith("M"):
        month, week, weekday = map(int, text[1:].split("."))
        first, following = days_of(years, ones * month, ones), days_of(years, ones * month + 1, ones)
        day = first + (weekday - (first + 4) % 7) % 7 + (week - 1) * 7
        return np.where(day >= following, day - 7, day)
    start = days_of(years, ones, ones)
    if not text.startswith("J"):
        return start + int(text)
    # J60 is March 1 in every year: February 29 is not counted.
    leap = days_of(years, ones * 3, ones) - start == 60
    day = start + int(text[1:]) - 1
    return np.where(leap & (int(text[1:]) > 59), day + 1, day)
