"""Kernels that DuckDB runs: JSON paths, hashes, and the like, where Arrow has no kernel and Python would loop.

    duck("md5(a)", pa.string(), a=array)

One connection a thread, in memory, never a file; a forked child destroys none of its parent's (`fork.py`). DuckDB reads the
Arrow buffers in place. It is imported on first use, as it takes longer to load than most queries take to answer.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidegate.fork import PerThread, undying


def _connected() -> Any:
    import duckdb

    made = duckdb.connect(":memory:")
    made.execute("SET enable_external_access = false; SET preserve_insertion_order = true")
    return made


_connections = PerThread(_connected)


def connection() -> Any:
    """This thread's private DuckDB."""
    return _connections.get()


def duck(expression: str, type_: pa.DataType, **arrays: pa.Array) -> pa.Array:
    """`expression` over the named arrays, row by row, in their order."""
    con = connection()
    con.register("given", pa.table(arrays))
    try:
        got = con.sql(f"SELECT {expression} AS r FROM given").to_arrow_table()
    finally:
        con.unregister("given")
    return got.column("r").cast(type_).combine_chunks()


def locked() -> Any:
    """A DuckDB of its own, in memory, for texts of strangers: no files, no extensions, no settings, little memory, one thread."""
    import duckdb

    return undying(
        duckdb.connect(
            ":memory:",
            config={
                "enable_external_access": "false",
                "autoload_known_extensions": "false",
                "autoinstall_known_extensions": "false",
                "allow_community_extensions": "false",
                "memory_limit": "256MB",
                "max_temp_directory_size": "0B",
                "threads": "1",
                "lock_configuration": "true",
            },
        )
    )
