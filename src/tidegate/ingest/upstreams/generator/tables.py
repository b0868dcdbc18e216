"""The tables of GENERATOR: every value is a function of its record's number and the seed, and of nothing else.

    name, type_, make = TABLES["orders"]["orders"].fields[7]
    make(recipe, np.array([7, 1_000_000]))          the totals of these two orders; nothing else is made

A column is drawn by hashing: `draw(seed, "orders.quantity", number)` gives 64 random bits, whichever records are made with it, in
whatever order, on whatever machine. So any stretch of records can be made alone, of it only the columns that are demanded, and
of those only the rows that pass a filter. Where a value depends on another (a total on its price), that one is drawn again.

Words and shares below are part of what a seed means: to change one is to change everybody's data, and a test
notices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.types import INT4, INT8, JSONB, TEXT, TIMESTAMPTZ, Type, numeric
from tidegate.ingest.source import Columns


@dataclass(frozen=True)
class Recipe:
    """What, beside its number, makes a record what it is."""

    seed: int
    start: int
    """When record 0 happened, in µs since 1970."""
    every: int
    """And the next `per` records each after another, all of them within so many µs."""
    per: int

    def times(self, numbers: np.ndarray) -> np.ndarray:
        """When records happened, in µs since 1970."""
        return self.start + numbers * self.every // self.per


Make = Callable[[Recipe, np.ndarray], pa.Array]
"""A column's values of the records of some numbers; numbers count the records of all the generator's tables."""


@dataclass(frozen=True)
class Table:
    """A table that can be made."""

    fields: tuple[tuple[str, Type, Make], ...]
    slots: tuple[int, ...] = (0,)
    """Of each `cycle` records, which belong to this table."""
    cycle: int = 1

    @property
    def columns(self) -> Columns:
        """Names and types."""
        return tuple((name, type_) for name, type_, _ in self.fields)

    def numbers(self, start: int, end: int) -> np.ndarray:
        """Which of the records from `start` to `end`, that not with them, are this table's."""
        numbers = np.arange(start, end, dtype=np.int64)
        return numbers if self.cycle == 1 else numbers[np.isin(numbers % self.cycle, self.slots)]


# ---------------------------------------------------------------- drawing


@lru_cache(4096)
def _salt(seed: int, what: str) -> np.uint64:
    return np.uint64(
        int.from_bytes(hashlib.blake2b(f"{seed}/{what}".encode(), digest_size=8).digest(), "little")
    )


def draw(recipe: Recipe, what: str, numbers: np.ndarray) -> np.ndarray:
    """A share of 1 for each record: 53 random bits, by the mixing steps of SplitMix64."""
    bits = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    bits += _salt(recipe.seed, what)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((bits ^ (bits >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(share: np.ndarray, limit: int | np.ndarray) -> np.ndarray:
    """Whole numbers from 0, below the limit."""
    return (share * limit).astype(np.int64)


def often_small(share: np.ndarray, limit: int) -> np.ndarray:
    """Likewise, small ones more often: some customers buy much, most little."""
    return below(share * share * share, limit)


def word(share: np.ndarray, words: Sequence[tuple[str, float]]) -> pa.Array:
    """Words, each as often as its weight says."""
    ends = np.cumsum([weight for _, weight in words])
    which = np.minimum(np.searchsorted(ends / ends[-1], share, side="right"), len(words) - 1)
    return pa.array([text for text, _ in words], pa.string()).take(pa.array(which))


def joined(*pieces: str | np.ndarray | pa.Array) -> pa.Array:
    """Texts of pieces: the same for all, numbers, or texts."""
    texts = [
        pa.scalar(one)
        if isinstance(one, str)
        else (pa.array(one) if isinstance(one, np.ndarray) else one).cast(pa.string())
        for one in pieces
    ]
    return pc.binary_join_element_wise(*texts, pa.scalar(""))


def money(cents: np.ndarray, precision: int) -> pa.Array:
    """Amounts with two digits behind the point."""
    words = np.stack([cents, cents >> 63], axis=1)  # 128 bits, the low half first
    return pa.Array.from_buffers(pa.decimal128(precision, 2), len(cents), [None, pa.py_buffer(words)])


def _instants(micros: np.ndarray) -> pa.Array:
    return pa.array(micros).cast(TIMESTAMPTZ.arrow)


def _int4(values: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.int32))


def _times(recipe: Recipe, numbers: np.ndarray) -> pa.Array:
    return _instants(recipe.times(numbers))


def _ids(_: Recipe, numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers + 1)


# ---------------------------------------------------------------- events

_KINDS = (("view", 60), ("click", 25), ("search", 8), ("cart", 4), ("pay", 2), ("error", 1))
_COUNTRIES = (("US", 30), ("DE", 15), ("IN", 15), ("BR", 10), ("FR", 10), ("JP", 10), ("NG", 6), ("NZ", 4))
_AGENTS = (("Firefox", 20), ("Chrome", 50), ("Safari", 25), ("curl", 5))


def _event(what: str, words: Sequence[tuple[str, float]]) -> Make:
    return lambda recipe, numbers: word(draw(recipe, f"events.{what}", numbers), words)


def _user(recipe: Recipe, numbers: np.ndarray) -> pa.Array:
    return pa.array(often_small(draw(recipe, "events.user", numbers), 100_000) + 1)


def _page(recipe: Recipe, numbers: np.ndarray) -> pa.Array:
    return joined("/page/", often_small(draw(recipe, "events.page", numbers), 1_000))


def _duration(recipe: Recipe, numbers: np.ndarray) -> pa.Array:
    """NULL for one in ten: whoever closed the window before it was known."""
    share = draw(recipe, "events.duration", numbers)
    return pa.array(often_small(share, 60_000).astype(np.int32), mask=share >= 0.9)


def _event_payload(recipe: Recipe, numbers: np.ndarray) -> pa.Array:
    """Keys by length, then by letters, as jsonb keeps them."""
    agent = _event("agent", _AGENTS)(recipe, numbers)
    host = below(draw(recipe, "events.host", numbers), 254) + 1
    address = ('{"ip":"10.0.', below(draw(recipe, "events.net", numbers), 256), ".", host)
    return joined(*address, '","ts":', recipe.times(numbers) // 1000, ',"agent":"', agent, '"}')


_EVENTS = Table(
    (
        ("id", INT8, _ids),
        ("at", TIMESTAMPTZ, _times),
        ("user_id", INT8, _user),
        ("kind", TEXT, _event("kind", _KINDS)),
        ("page", TEXT, _page),
        ("country", TEXT, _event("country", _COUNTRIES)),
        ("duration_ms", INT4, _duration),
        ("payload", JSONB, _event_payload),
    )
)

# ---------------------------------------------------------------- orders

_STATUSES = (("delivered", 70), ("shipped", 15), ("paid", 8), ("open", 5), ("cancelled", 2))
_ITEMS = tuple(
    (f"{colour} {thing}", 1.0)
    for colour in ("red", "green", "blue", "white", "black")
    for thing in ("chair", "table", "lamp", "shelf", "rug", "desk", "sofa", "clock")
)


def _customer(recipe: Recipe, numbers: np.ndarray) -> pa.Array:
    return pa.array(often_small(draw(recipe, "orders.customer", numbers), 50_000) + 1)


def _order(what: str, words: Sequence[tuple[str, float]]) -> Make:
    return lambda recipe, numbers: word(draw(recipe, f"orders.{what}", numbers), words)


def _quantity(recipe: Recipe, numbers: np.ndarray) -> np.ndarray:
    return often_small(draw(recipe, "orders.quantity", numbers), 10) + 1


def _price(recipe: Recipe, numbers: np.ndarray) -> np.ndarray:
    return often_small(draw(recipe, "orders.price", numbers), 50_000) + 199


def _order_payload(recipe: Recipe, numbers: np.ndarray) -> pa.Array:
    channel = _order("channel", (("web", 70), ("app", 25), ("shop", 5)))(recipe, numbers)
    gift = word(draw(recipe, "orders.gift", numbers), (("false", 9), ("true", 1)))
    times = recipe.times(numbers) // 1000
    return joined('{"ts":', times, ',"gift":', gift, ',"channel":"', channel, '"}')


_ORDERS = Table(
    (
        ("id", INT8, _ids),
        ("customer_id", INT8, _customer),
        ("created_at", TIMESTAMPTZ, _times),
        ("status", TEXT, _order("status", _STATUSES)),
        ("item", TEXT, _order("item", _ITEMS)),
        ("quantity", INT4, lambda recipe, numbers: _int4(_quantity(recipe, numbers))),
        ("price", numeric(10, 2), lambda recipe, numbers: money(_price(recipe, numbers), 10)),
        (
            "total",
            numeric(12, 2),
            lambda recipe, numbers: money(_price(recipe, numbers) * _quantity(recipe, numbers), 12),
        ),
        ("payload", JSONB, _order_payload),
    )
)

# ---------------------------------------------------------------- auction: twelve records a round, of three tables

_ROUND = 12
_GOODS = tuple(
    (name, 1.0) for name in ("old map", "brass lamp", "oak chest", "silver spoon", "tin toy", "wall clock")
)
_NAMES = tuple((name, 1.0) for name in ("Ada", "Ben", "Chi", "Dee", "Eva", "Fin", "Gus", "Hua", "Ida", "Jon"))
_OPEN = 5
"""Bids go to one of so many auctions, the newest."""


def _round(_: Recipe, numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers // _ROUND + 1)


def _somebody(what: str) -> Make:
    """One of the users that there are by then, this round's with them."""
    return lambda recipe, numbers: pa.array(below(draw(recipe, what, numbers), numbers // _ROUND + 1) + 1)


def _name(recipe: Recipe, numbers: np.ndarray) -> pa.Array:
    return joined(word(draw(recipe, "users.name", numbers), _NAMES), " ", numbers // _ROUND + 1)


def _end_time(recipe: Recipe, numbers: np.ndarray) -> pa.Array:
    minutes = below(draw(recipe, "auctions.end_time", numbers), 10) + 1
    return _instants(recipe.times(numbers) + minutes * 60_000_000)


def _bid(_: Recipe, numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers // _ROUND * (_ROUND - 2) + numbers % _ROUND - 1)


def _bid_auction(recipe: Recipe, numbers: np.ndarray) -> pa.Array:
    newest = numbers // _ROUND + 1
    back = below(draw(recipe, "bids.auction_id", numbers), np.minimum(newest, _OPEN))
    return pa.array(newest - back)


_AUCTION = {
    "users": Table(
        (
            ("id", INT8, _round),
            ("org_id", INT8, lambda recipe, n: pa.array(below(draw(recipe, "users.org", n), 100) + 1)),
            ("name", TEXT, _name),
        ),
        (0,),
        _ROUND,
    ),
    "auctions": Table(
        (
            ("id", INT8, _round),
            ("seller", INT8, _somebody("auctions.seller")),
            ("item", TEXT, lambda recipe, n: word(draw(recipe, "auctions.item", n), _GOODS)),
            ("end_time", TIMESTAMPTZ, _end_time),
        ),
        (1,),
        _ROUND,
    ),
    "bids": Table(
        (
            ("id", INT8, _bid),
            ("buyer", INT8, _somebody("bids.buyer")),
            ("auction_id", INT8, _bid_auction),
            ("amount", INT4, lambda recipe, n: _int4(below(draw(recipe, "bids.amount", n), 100) + 1)),
            ("bid_time", TIMESTAMPTZ, _times),
        ),
        tuple(range(2, _ROUND)),
        _ROUND,
    ),
}

TABLES: dict[str, dict[str, Table]] = {
    "counter": {"counter": Table((("counter", INT8, _ids),))},
    "events": {"events": _EVENTS},
    "orders": {"orders": _ORDERS},
    "auction": _AUCTION,
}
"""The generators, and the tables of each."""
