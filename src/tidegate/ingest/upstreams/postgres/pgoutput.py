r"""Decodes messages of pgoutput, PostgreSQL's plugin for logical decoding, in batches.

    B  lsn of the commit, time, xid                       a transaction begins; they are complete, in commit order
    R  oid, schema, table, identity, columns              the layout of a table's tuples from here on
    I  oid 'N' tuple                                      +tuple
    U  oid 'O' old 'N' new                                -old +new
    D  oid 'O' old                                        -old
    T  tables                                             TRUNCATE
    C  …                                                  the transaction is complete

    tuple:  columns (int16), and of each   'n'  |  'u' (unchanged and stored out of line)  |  't' length (int32) bytes

A run of messages is an array of bytes and the offsets of the messages in it. The kind, transaction and table of all messages are
determined together; then all tuples of a table are parsed together, column by column. Python loops iterate only over columns, and
over R and T messages, which are rare.

A value that an UPDATE did not change and that is stored out of line (TOAST) is not sent with the new tuple. It is taken
from the old tuple, which is complete as tables have REPLICA IDENTITY FULL.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tidegate.ingest.upstreams.postgres.values import NULL, PADDING, Tuples

FULL = "f"
"""REPLICA IDENTITY FULL, as a relation message encodes it."""
_UNCHANGED = -2
_EPOCH = 946_684_800_000_000
"""Microseconds from 1970 to 2000, the epoch of PostgreSQL."""
_B, _R, _I, _U, _D, _T = b"BRIUDT"
_OLD, _NEW, _TEXT, _NONE = b"ONtn"


@dataclass(frozen=True)
class PgRelation:
    """The description of a table that holds for the messages after it."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[tuple[str, int, int], ...]
    """The name, type oid and type modifier of each column."""


@dataclass(frozen=True, eq=False)
class RowChanges:
    """Inserted and deleted tuples of one table."""

    relation: PgRelation
    tuples: Tuples
    diffs: np.ndarray
    commits: np.ndarray
    """The position in the log of the commit of each tuple's transaction."""
    times: np.ndarray
    """The times of these commits, in microseconds since 1970."""


@dataclass(frozen=True)
class UnsupportedChange:
    """A message that does not contain all rows that it changes."""

    relation: PgRelation
    what: str
    """`TRUNCATE`, or an `UPDATE` or `DELETE` without the old row."""
    commit: int


@dataclass(eq=False)
class ChangeReader:
    """Decodes a stream of messages in runs; keeps relations and the transaction from run to run."""

    after: int
    upto: int
    """Reads transactions with a commit record that begins in [after, upto); the record ends after that position."""
    wanted: Collection[int]
    """The oids of the tables to read."""
    relations: dict[int, PgRelation] = field(default_factory=dict)
    commit: int = 0
    time: int = 0

    def run(self, messages: bytes, starts: np.ndarray) -> Iterator[RowChanges | UnsupportedChange]:
        """The changes in a run of messages, table by table, each in order."""
        data = np.frombuffer(messages + bytes(PADDING), np.uint8)
        kinds = data[starts]
        commits, times = self._transactions(data, starts, kinds)
        inside = (commits >= self.after) & (commits < self.upto)
        yield from self._truncated(messages, starts[(kinds == _T) & inside], commits[(kinds == _T) & inside])
        rows = np.flatnonzero(np.isin(kinds, (_I, _U, _D)))
        oids = _integers(data, starts[rows] + 1, ">i4").astype(np.int64) & 0xFFFF_FFFF
        relevant = inside[rows] & np.isin(oids, list(self.wanted))
        rows, oids = rows[relevant], oids[relevant]
        said = [(int(i), _relation(messages, int(starts[i]))) for i in np.flatnonzero(kinds == _R)]
        for oid in np.unique(oids):
            mine = rows[oids == oid]
            for relation, low, high in self._versions(int(oid), said, len(starts)):
                selected = mine[(mine >= low) & (mine < high)]
                if len(selected):
                    assert relation is not None, "a relation is described before its first tuple"
                    yield from _changes(
                        relation, data, starts[selected], kinds[selected], commits[selected], times[selected]
                    )
        self.relations |= {relation.oid: relation for _, relation in said}

    def _transactions(
        self, data: np.ndarray, starts: np.ndarray, kinds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The commit position and commit time of each message's transaction."""
        begins = np.flatnonzero(kinds == _B)
        commits = np.concatenate([[self.commit], _integers(data, starts[begins] + 1, ">i8")])
        times = np.concatenate([[self.time], _integers(data, starts[begins] + 9, ">i8") + _EPOCH])
        self.commit, self.time = int(commits[-1]), int(times[-1])
        which = np.searchsorted(begins, np.arange(len(starts)), side="right")
        return commits[which], times[which]

    def _versions(
        self, oid: int, said: list[tuple[int, PgRelation]], count: int
    ) -> Iterator[tuple[PgRelation | None, int, int]]:
        """The descriptions of a table, each with the range of messages for which it holds."""
        here = [(i, relation) for i, relation in said if relation.oid == oid]
        edges = [0, *(i for i, _ in here), count]
        looks = [self.relations.get(oid), *(relation for _, relation in here)]
        yield from zip(looks, edges[:-1], edges[1:], strict=True)

    def _truncated(
        self, messages: bytes, starts: np.ndarray, commits: np.ndarray
    ) -> Iterator[UnsupportedChange]:
        for start, commit in zip(starts.tolist(), commits.tolist(), strict=True):
            (count,) = struct.unpack_from(">i", messages, start + 1)
            for oid in struct.unpack_from(f">{count}I", messages, start + 6):
                if oid in self.wanted:
                    known = self.relations.get(oid, PgRelation(oid, "", "", FULL, ()))
                    yield UnsupportedChange(known, "TRUNCATE", commit)


def _integers(data: np.ndarray, at: np.ndarray, form: str) -> np.ndarray:
    """The integers at these offsets, in a numpy format such as `>i4`."""
    width = int(form[-1])
    integers: np.ndarray = sliding_window_view(data, width)[at].view(form).reshape(-1).astype(np.int64)
    return integers


def _relation(messages: bytes, start: int) -> PgRelation:
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
    return PgRelation(oid, schema or "pg_catalog", name, identity.decode(), tuple(columns))


def _string(messages: bytes, at: int) -> tuple[str, int]:
    end = messages.index(0, at)
    return messages[at:end].decode("utf-8", "replace"), end + 1


_Walked = tuple[list[np.ndarray], list[np.ndarray], np.ndarray]


def _walk(data: np.ndarray, at: np.ndarray, width: int) -> _Walked:
    """The offsets and lengths of the values of tuples, by column, and the ends of the tuples."""
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
    relation: PgRelation,
    data: np.ndarray,
    starts: np.ndarray,
    kinds: np.ndarray,
    commits: np.ndarray,
    times: np.ndarray,
) -> Iterator[RowChanges | UnsupportedChange]:
    """Inserts, updates and deletes of one table; the old tuple of an update precedes the new one."""
    width = len(relation.columns)
    old = np.flatnonzero(kinds != _I)
    poor = old[data[starts[old] + 5] != _OLD]
    if len(poor):
        what = "UPDATE" if kinds[poor[0]] == _U else "DELETE"
        yield UnsupportedChange(relation, what, int(commits[poor[0]]))
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
    yield RowChanges(relation, tuples, diffs, commits[from_], times[from_])


def _fill(
    starts: list[np.ndarray],
    lengths: list[np.ndarray],
    old_starts: list[np.ndarray],
    old_lengths: list[np.ndarray],
    before: np.ndarray,
) -> None:
    """Takes values that an update left unchanged from the old tuple, with index `before`."""
    for column, length in enumerate(lengths):
        gone = np.flatnonzero(length == _UNCHANGED)
        if len(gone):
            assert (before[gone] >= 0).all(), "only updates leave values unchanged"
            starts[column][gone] = old_starts[column][before[gone]]
            length[gone] = old_lengths[column][before[gone]]
