"""The tables of TPC-H: made by tpchgen-cli, appended to a lake, and read by DuckDB from the lake's own part files.

lake(folder, scale)      a database with the eight tables, made once and kept
duckdb_over(db)          a DuckDB whose views read the same part files
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import tidegate
from tidegate.storage.shard import open_snapshot

TABLES = {
    "region": "r_regionkey int8, r_name text, r_comment text",
    "nation": "n_nationkey int8, n_name text, n_regionkey int8, n_comment text",
    "supplier": "s_suppkey int8, s_name text, s_address text, s_nationkey int8, s_phone text, s_acctbal numeric(15,2), "
    "s_comment text",
    "customer": "c_custkey int8, c_name text, c_address text, c_nationkey int8, c_phone text, c_acctbal numeric(15,2), "
    "c_mktsegment text, c_comment text",
    "part": "p_partkey int8, p_name text, p_mfgr text, p_brand text, p_type text, p_size int4, p_container text, "
    "p_retailprice numeric(15,2), p_comment text",
    "partsupp": "ps_partkey int8, ps_suppkey int8, ps_availqty int4, ps_supplycost numeric(15,2), ps_comment text",
    "orders": "o_orderkey int8, o_custkey int8, o_orderstatus text, o_totalprice numeric(15,2), o_orderdate date, "
    "o_orderpriority text, o_clerk text, o_shippriority int4, o_comment text",
    "lineitem": "l_orderkey int8, l_partkey int8, l_suppkey int8, l_linenumber int4, l_quantity numeric(15,2), "
    "l_extendedprice numeric(15,2), l_discount numeric(15,2), l_tax numeric(15,2), l_returnflag text, l_linestatus text, "
    "l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct text, l_shipmode text, l_comment text",
}
PART_ROWS = 1_000_000
"""Rows of a part: lineitem has six parts at scale 1."""


def queries() -> dict[int, str]:
    """The questions by number."""
    text = (Path(__file__).parent / "queries.sql").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    statements = "\n".join(lines).split(";\n")
    return {i: sql.strip().rstrip(";") for i, sql in enumerate((s for s in statements if s.strip()), 1)}


def lake(folder: Path, scale: float) -> tidegate.Database:
    """A database with the tables at a scale; made if it is not there yet."""
    place = folder / f"tpch-{scale:g}"
    complete = place / "complete"
    if not complete.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        _generate(place / "raw", scale)
        # DuckDB reads the same files: the smallest tables too
        with tidegate.open(place / "lake", config=tidegate.Config(inline_bytes=0)) as db:
            for name in TABLES:
                _load(db, name, place / "raw" / f"{name}.parquet")
        shutil.rmtree(place / "raw")
        complete.touch()
    return tidegate.open(place / "lake")


def _generate(folder: Path, scale: float) -> None:
    tool = Path(sys.executable).parent / "tpchgen-cli"
    folder.mkdir()
    subprocess.run([tool, "parquet", "-s", f"{scale:g}", f"--output-dir={folder}"], check=True)


def _load(db: tidegate.Database, name: str, file: Path) -> None:
    db.sql(f"CREATE TABLE {name} ({TABLES[name]})")
    source = pq.ParquetFile(file)
    for batch in source.iter_batches(PART_ROWS):
        columns = [
            column.cast(pa.string()) if pa.types.is_string_view(column.type) else column
            for column in batch.columns
        ]
        db.append(name, pa.table(columns, names=batch.schema.names))


def part_files(db: tidegate.Database, name: str) -> list[str]:
    """The paths of a table's parts."""
    root = Path(db.context.root.place.root)
    with open_snapshot(db.context.collection(name), None) as snapshot:
        return [str(root / part.name) for part in snapshot.parts()]


def duckdb_over(db: tidegate.Database) -> Any:
    """A DuckDB with a view of each table over the same part files."""
    connection = duckdb.connect()
    for name, columns in TABLES.items():
        shown = ", ".join(column.split()[0] for column in columns.split(", "))
        files = ", ".join(f"'{file}'" for file in part_files(db, name))
        connection.execute(f"CREATE VIEW {name} AS SELECT {shown} FROM read_parquet([{files}])")
    return connection
