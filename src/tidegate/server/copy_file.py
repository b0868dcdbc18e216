r"""Rows between a table and a file, as psql's `\copy` has them.

    copy_from_file(db, "COPY orders FROM STDIN (FORMAT csv, HEADER)", path)      the number of rows, in one atomic commit
    copy_to_file(db, "COPY (SELECT id FROM orders) TO STDOUT", path)             the file is replaced once it is complete

Errors name the line and the column of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from tidegate.errors import EvaluationError, StoreError, TidegateError
from tidegate.query import CancelToken
from tidegate.server.export import atomic_write
from tidegate.server.postgres.copy.load import CopyLoad
from tidegate.server.postgres.copy.output import CopyEncoder
from tidegate.server.postgres.copy.statement import CopyStatement, parse_copy
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.session import Session
from tidegate.sql.parse import statement_texts

_PIECE = 1 << 20


def copy_from_file(db: Session, sql: str, path: Path) -> int:
    """Appends the rows of a file to a table; the number of rows."""
    try:
        load = CopyLoad(db, _parsed(sql), CancelToken())
        with path.open("rb") as file:
            while data := file.read(_PIECE):
                load.feed(data)
        return load.finish()
    except PostgresError as error:
        raise _ours(error) from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None


def copy_to_file(db: Session, sql: str, path: Path) -> int:
    """Writes the rows of a table or a query to a file; the number of rows."""
    try:
        copy = _parsed(sql)
        result = db.sql(copy.piece.text)
        encoder = CopyEncoder(copy.options, result.names, result.types)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            for batch in result.batches():
                file.writelines(_payloads(encoder.encode(batch)))
            file.writelines(_payloads(encoder.end()))
        return result.count or len(result)
    except PostgresError as error:
        raise _ours(error) from None


def _parsed(sql: str) -> CopyStatement:
    return parse_copy(statement_texts(sql)[0])


def _payloads(frames: bytes) -> Iterator[bytes]:
    """What is in the messages of COPY, without their heads."""
    at = 0
    while at < len(frames):
        size: int = struct.unpack_from(">i", frames, at + 1)[0]
        if frames[at : at + 1] == b"d":
            yield frames[at + 5 : at + 1 + size]
        at += 1 + size


def _ours(error: PostgresError) -> TidegateError:
    where = f" ({error.context})" if error.context else ""
    return EvaluationError(f"{error.message}{where}", hint=error.hint)
