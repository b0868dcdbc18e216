"""SQL expressions that DuckDB evaluates over Arrow arrays, where Arrow has no kernel.

    duckdb_eval("md5(a)", pa.string(), a=array)

There is one in-memory connection per thread; a forked child does not destroy those of its parent (`fork.py`). DuckDB reads the
Arrow buffers without a copy. It is imported on first use, since loading it takes longer than most queries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidegate.fork import PerThread, undying

UNSOUND_RULES = "top_n_window_elimination"
"""Rules of DuckDB's optimizer that are switched off because they give wrong rows.

With this one a correlated `ORDER BY x LIMIT 1` gave a NULL although there was a value, and NULLS LAST was written: in one query of
twenty, on two threads.
"""


def _open(**config: str) -> Any:
    """A new in-memory DuckDB that never draws its progress.

    In notebooks and interactive interpreters it does by default.
    """
    import duckdb

    connection = duckdb.connect(":memory:", config={"disabled_optimizers": UNSOUND_RULES, **config})
    connection.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
    return connection


def _connect() -> Any:
    connection = _open()
    connection.execute("SET enable_external_access = false; SET preserve_insertion_order = true")
    return connection


_connections = PerThread(_connect)


def duckdb_connection() -> Any:
    """The in-memory DuckDB connection of this thread."""
    return _connections.get()


def duckdb_eval(expression: str, type_: pa.DataType, **arrays: pa.Array) -> pa.Array:
    """The values of the SQL `expression` over the named arrays, in row order."""
    con = duckdb_connection()
    con.register("arguments", pa.table(arrays))
    try:
        table = con.sql(f"SELECT {expression} AS r FROM arguments").to_arrow_table()
    finally:
        con.unregister("arguments")
    return table.column("r").cast(type_).combine_chunks()


def sandbox_connection() -> Any:
    """A new in-memory DuckDB for untrusted SQL: no files, extensions or settings; one thread, 256 MB."""
    connection = _open(
        enable_external_access="false",
        autoload_known_extensions="false",
        autoinstall_known_extensions="false",
        allow_community_extensions="false",
        memory_limit="256MB",
        max_temp_directory_size="0B",
        threads="1",
    )
    connection.execute("SET lock_configuration = true")
    return undying(connection)


def sql_text(value: str) -> str:
    """A string literal of DuckDB's SQL."""
    return "'" + value.replace("'", "''") + "'"


def sql_list(values: Iterable[str]) -> str:
    """A list literal of strings in DuckDB's SQL."""
    return "[" + ", ".join(map(sql_text, values)) + "]"


def engine_connection(temp_directory: str) -> Any:
    """A new in-memory DuckDB for queries of ours, which spills to a directory; without extensions."""
    return undying(
        _open(
            autoload_known_extensions="false",
            autoinstall_known_extensions="false",
            allow_community_extensions="false",
            temp_directory=temp_directory,
            python_enable_replacements="false",
        )
    )


def duckdb_error() -> type[Exception]:
    """The class of DuckDB's errors."""
    import duckdb

    return duckdb.Error
