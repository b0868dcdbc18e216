r"""The messages of pgoutput, PostgreSQL's own plugin for logical decoding (protocol 1), for many messages at once.

    B  lsn of the commit, time, xid                       a transaction begins; they come whole, and in the order of commits
    R  oid, schema, table, identity, columns              how the tuples of a table look from here on
    I  oid 'N' tuple                                      +tuple
    U  oid 'O' old 'N' new                                -old +new
    D  oid 'O' old                                        -old
    T  tables                                             TRUNCATE
    C  …                                                  the transaction is complete

    tuple:  columns (int16), and of each   'n'  |  'u' (unchanged and kept elsewhere)  |  't' length (int32) bytes

A run of messages is one array of bytes, and where in it messages begin. What kind each is, to which transaction and table it
belongs, is looked up for all of them together; then the tuples of one table are walked, all at once, from column to column. Loops
go over columns, and over R and T, of which there are few.

A value that an UPDATE did not touch and that is stored out of line (TOAST) is not sent with the new tuple. It is taken
from the old one, which is whole: tables have REPLICA IDENTITY FULL.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tidegate.ingest.postgres_values import NULL, PADDING, Tuples

FULL = "f"
"""REPLICA IDENTITY FULL, as a relation says it."""
_UNCHANGED = -2
_EPOCH = 946_684_800_000_000
"""Microseconds from 1970 to 2000, where PostgreSQL's times begin."""
_B, _R, _I, _U, _D, _T = b"BRIUDT"
_OLD, _NEW, _TEXT, _NONE = b"ONtn"


@dataclass(frozen=True)
class Relation:
    """A table as the messages that follow have it."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[tuple[str, int, int], ...]
    """Names, oids of types, and their modifiers."""


@dataclass(frozen=True, eq=False)
class Changes:
    """Tuples of one table that came or went."""

    relation: Relation
    tuples: Tuples
    diffs: np.ndarray
    commits: np.ndarray
    """Of each tuple where its transaction's commit lies in the log."""
    times: np.ndarray
    """When that was, in microseconds since 1970."""


@dataclass(frozen=True)
class Refused:
    """A message that says less than what happened to the rows of a table."""

    relation: Relation
    what: str
    """`TRUNCATE`, or an `UPDATE` or `DELETE` that came without the old row."""
    commit: int


@dataclass(eq=False)
class Reading:
    """A stream of messages, in runs: what was said in one run holds in the next."""

    after: int
    upto: int
    """Transactions whose commit begins in [after, upto): one that is committed ends behind where it begins."""
    wanted: Collection[int]
    """The oids of tables."""
    relations: dict[int, Relation] = field(default_factory=dict)
    commit: int = 0
    time: int = 0

    def run(self, messages: bytes, starts: np.ndarray) -> Iterator[Changes | Refused]:
        """What the messages that begin there say of the tables that are wanted, table by table, each in order."""
        data = np.frombuffer(messages + bytes(PADDING), np.uint8)
        kinds = data[starts]
        commits, times = self._transactions(data, starts, kinds)
        inside = (commits >= self.after) & (commits < self.upto)
        yield from self._truncated(messages, starts[(kinds == _T) & inside], commits[(kinds == _T) & inside])
        rows = np.flatnonzero(np.isin(kinds, (_I, _U, _D)))
        oids = _integers(data, starts[rows] + 1, ">i4").astype(np.int64) & 0xFFFF_FFFF
        kept = inside[rows] & np.isin(oids, list(self.wanted))
        rows, oids = rows[kept], oids[kept]
        said = [(int(i), _relation(messages, int(starts[i]))) for i in np.flatnonzero(kinds == _R)]
        for oid in np.unique(oids):
            mine = rows[oids == oid]
            for relation, low, high in self._versions(int(oid), said, len(starts)):
                some = mine[(mine >= low) & (mine < high)]
                if len(some):
                    assert relation is not None, "a relation is described before its first tuple"
                    yield from _changes(relation, data, starts[some], kinds[some], commits[some], times[some])
        self.relations |= {relation.oid: relation for _, relation in said}

    def _transactions(
        self, data: np.ndarray, starts: np.ndarray, kinds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of each message the commit of its transaction, and its time."""
        begins = np.flatnonzero(kinds == _B)
        commits = np.concatenate([[self.commit], _integers(data, starts[begins] + 1, ">i8")])
        times = np.concatenate([[self.time], _integers(data, starts[begins] + 9, ">i8") + _EPOCH])
        self.commit, self.time = int(commits[-1]), int(times[-1])
        which = np.searchsorted(begins, np.arange(len(starts)), side="right")
        return commits[which], times[which]

    def _versions(
        self, oid: int, said: list[tuple[int, Relation]], count: int
    ) -> Iterator[tuple[Relation | None, int, int]]:
        """How a table looked, and for which messages."""
        here = [(i, relation) for i, relation in said if relation.oid == oid]
        edges = [0, *(i for i, _ in here), count]
        looks = [self.relations.get(oid), *(relation for _, relation in here)]
        yield from zip(looks, edges[:-1], edges[1:], strict=True)

    def _truncated(self, messages: bytes, starts: np.ndarray, commits: np.ndarray) -> Iterator[Refused]:
        for start, commit in zip(starts.tolist(), commits.tolist(), strict=True):
            (count,) = struct.unpack_from(">i", messages, start + 1)
            for oid in struct.unpack_from(f">{count}I", messages, start + 6):
                if oid in self.wanted:
                    known = self.relations.get(oid, Relation(oid, "", "", FULL, ()))
                    yield Refused(known, "TRUNCATE", commit)


def _integers(data: np.ndarray, at: np.ndarray, form: str) -> np.ndarray:
    """Numbers that begin there."""
    width = int(form[-1])
    found: np.ndarray = sliding_window_view(data, width)[at].view(form).reshape(-1).astype(np.int64)
    return found


def _relation(messages: bytes, start: int) -> Relation:
    (oid,) = struct.unpack_from(">I", messages, start + 1)
    schema, at = _string(messages, start + 5)
    name, at = _string(messages, at)
    identity, count = struct.unpack_from(">ch", messages, at)
    at += 3
    columns = []
    for _ in range(count):
        column, at = _string(messages, at + 1)
        type_, modifier = struct.unpack_from(">Ii", messages, at)
        columns.append((column, type_, modifier))
        at += 8
    return Relation(oid, schema or "pg_catalog", name, identity.decode(), tuple(columns))


def _string(messages: bytes, at: int) -> tuple[str, int]:
    end = messages.index(0, at)
    return messages[at:end].decode("utf-8", "replace"), end + 1


_Walked = tuple[list[np.ndarray], list[np.ndarray], np.ndarray]


def _walk(data: np.ndarray, at: np.ndarray, width: int) -> _Walked:
    """Of tuples that begin there, where each column's values are, their lengths, and where the tuples end."""
    assert (_integers(data, at, ">i2") == width).all(), "tuples have the columns of their relation"
    at = at + 2
    starts, lengths = [], []
    for _ in range(width):
        kind = data[at]
        text = kind == _TEXT
        length = np.where(text, _integers(data, at + 1, ">i4"), np.where(kind == _NONE, NULL, _UNCHANGED))
        starts.append(at + 5)
        lengths.append(length)
        at = at + np.where(text, 5 + length, 1)
    return starts, lengths, at


def _changes(
    relation: Relation,
    data: np.ndarray,
    starts: np.ndarray,
    kinds: np.ndarray,
    commits: np.ndarray,
    times: np.ndarray,
) -> Iterator[Changes | Refused]:
    """Inserts, updates and deletes of one table; the old tuple of an update stands before the new one."""
    width = len(relation.columns)
    old = np.flatnonzero(kinds != _I)
    poor = old[data[starts[old] + 5] != _OLD]
    if len(poor):
        what = "UPDATE" if kinds[poor[0]] == _U else "DELETE"
        yield Refused(relation, what, int(commits[poor[0]]))
        return
    old_starts, old_lengths, ends = _walk(data, starts[old] + 6, width)
    new = np.flatnonzero(kinds != _D)
    at = starts + 6
    at[old] = ends + 1
    new_starts, new_lengths, _ = _walk(data, at[new], width)
    before = np.full(len(starts), -1)
    before[old] = np.arange(len(old))
    _fill(new_starts, new_lengths, old_starts, old_lengths, before[new])
    order = np.argsort(np.concatenate([2 * old, 2 * new + 1]), kind="stable")
    from_ = np.concatenate([old, new])[order]
    tuples = Tuples(
        data,
        tuple(name for name, _, _ in relation.columns),
        [np.concatenate(two)[order] for two in zip(old_starts, new_starts, strict=True)],
        [np.concatenate(two)[order] for two in zip(old_lengths, new_lengths, strict=True)],
        len(order),
    )
    diffs = np.where(order < len(old), -1, 1)
    yield Changes(relation, tuples, diffs, commits[from_], times[from_])


def _fill(
    starts: list[np.ndarray],
    lengths: list[np.ndarray],
    old_starts: list[np.ndarray],
    old_lengths: list[np.ndarray],
    before: np.ndarray,
) -> None:
    """Values that an update left unchanged are those of the old tuple, `before` of each new one."""
    for column, length in enumerate(lengths):
        gone = np.flatnonzero(length == _UNCHANGED)
        if len(gone):
            assert (before[gone] >= 0).all(), "only updates leave values unchanged"
            starts[column][gone] = old_starts[column][before[gone]]
            length[gone] = old_lengths[column][before[gone]]
