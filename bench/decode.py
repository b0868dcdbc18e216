"""Decoding beside the tools that do the same: CPU-seconds, one run, the same bytes.

    make bench-decode                       200,000 lines of 40 fields; 5 fields and a tenth of the rows are kept

Others are given less to do: they read what they are told to, in their own semantics (duplicate keys, numbers, bad lines
differ: research/spark.md), and write nothing. Ours is exact, and knows which lines are bad.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from tidegate.expr.model.types import INT8
from tidegate.ingest.formats.avro.format import AvroFormat
from tidegate.ingest.formats.csv.format import CsvFormat
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.protocol import Columns, RecordFormat
from tidegate.plan.run import SafePlan
from tidegate.sql import prepare
from tidegate.sql.bind.catalog import DictCatalog, Relation

KEPT = ("id", "country", "amount", "user", "at")
COUNTRIES = ("de", "fr", "us", "uk", "it", "es", "nl", "pl", "se", "br")


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Events of 40 fields, 580 bytes as JSON."""
    chance = random.Random(1)
    words = [f"w{i:05d}" for i in range(500)]
    for i in range(count):
        fields: list[tuple[str, Any]] = [
            ("id", i),
            ("country", chance.choice(COUNTRIES)),
            ("amount", round(chance.random() * 1000, 2)),
            ("user", f"u{chance.randrange(10**6)}"),
            ("at", f"2026-01-{chance.randrange(1, 29):02d}T{chance.randrange(24):02d}:00:00Z"),
        ]
        fields += [
            (f"f{j:02d}", chance.choice(words) if j % 3 else chance.randrange(10**5)) for j in range(35)
        ]
        yield dict(fields[at * 7 % 40] for at in range(40))


def spent(work: Callable[[], int], turns: int) -> tuple[float, int]:
    """The least CPU time of some turns, and what the work gave."""
    best, got = float("inf"), 0
    for _ in range(turns):
        begin = time.process_time()
        got = work()
        best = min(best, time.process_time() - begin)
    return best, got


def ours(format_: RecordFormat, sql: str, data: bytes, name: str) -> Callable[[], int]:
    """Decoding and the plan, without statistics and parts."""
    columns: Columns = (*format_.columns, ("number", INT8))
    bound = prepare(sql, DictCatalog({"s": Relation("s", columns)}), 0).single
    assert bound is not None
    decode, left = format_.take(bound.mfp)

    def work() -> int:
        total = 0
        for decoded in decode.file(io.BytesIO(data), name):
            assert not decoded.failures
            number = pa.nulls(len(decoded.selection), pa.int64())
            total += len(
                SafePlan(left).evaluate([*decoded.columns, number], len(decoded.selection)).selection
            )
        return total

    return work


def table(title: str, count: int, turns: int, works: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Prints a line for each, and its ratio to the first."""
    print(f"\n{title}")
    found: dict[str, float] = {}
    for name, work in works.items():
        seconds, got = spent(work, turns)
        found[name] = seconds
        first = next(iter(found.values()))
        print(f"  {name:44s} {seconds / count * 1e6:7.2f} µs a row  {seconds / first:5.2f}×  {got:,} rows")
    return found


SELECT = (
    "SELECT (data->>'id')::int8, data->>'country', (data->>'amount')::numeric(12,2), data->>'user', "
    "(data->>'at')::timestamptz FROM s"
)
FILTERS = {
    "country = 'de'": " WHERE data->>'country' = 'de'",
    "amount > 900": " WHERE (data->>'amount')::numeric(12,2) > 900",
    "f03 < 10000": " WHERE (data->>'f03')::int8 < 10000",
    "every row": "",
}


def of_json(path: Path, data: bytes) -> dict[str, Callable[[], int]]:
    """JSON lines: ours with some filters, and others."""
    works = {
        f"tidegate, {name}": ours(JsonFormat(), SELECT + where, data, "x") for name, where in FILTERS.items()
    }
    works["pyarrow.json, 5 fields, country = 'de'"] = lambda: _arrow_json(data)
    works["duckdb read_json, 5 fields, country = 'de'"] = lambda: _duck_json(path)
    works["json.loads, country = 'de'"] = lambda: _loop(json.loads, data)
    for library, parser in (("simdjson", "Parser"), ("orjson", "")):
        try:
            module = importlib.import_module(library)
        except ImportError:
            continue
        parse = getattr(module, parser)().parse if parser else module.loads
        works[f"{library}, line by line, country = 'de'"] = partial(_loop, parse, data)
    return works


def _arrow_json(data: bytes) -> int:
    kinds = {
        "id": pa.int64(),
        "country": pa.string(),
        "amount": pa.float64(),
        "user": pa.string(),
        "at": pa.string(),
    }
    options = arrow_json.ParseOptions(explicit_schema=pa.schema(kinds), unexpected_field_behavior="ignore")
    found = arrow_json.read_json(io.BytesIO(data), arrow_json.ReadOptions(block_size=8 << 20), options)
    return len(found.filter(pc.equal(found["country"], "de")))


def _duck_json(path: Path) -> int:
    kinds = {"id": "BIGINT", "country": "VARCHAR", "amount": "DOUBLE", "user": "VARCHAR", "at": "TIMESTAMP"}
    columns = "{" + ", ".join(f"\"{name}\": '{kind}'" for name, kind in kinds.items()) + "}"
    sql = f"SELECT * FROM read_json('{path}', format = 'newline_delimited', columns = {columns}) WHERE country = 'de'"
    found = duckdb.sql(sql)
    assert found is not None
    return len(found.to_arrow_table())


def _loop(parse: Callable[[bytes], Any], data: bytes) -> int:
    found = []
    for line in data.splitlines():
        document = parse(line)
        if document["country"] == "de":
            found.append([document[name] for name in KEPT])
        del document
    return len(pa.table([pa.array(column) for column in zip(*found, strict=True)], names=KEPT))


def of_csv(data: bytes, names: tuple[str, ...]) -> dict[str, Callable[[], int]]:
    """CSV with a header."""
    sql = (
        'SELECT id::int8, country, amount::numeric(12,2), "user", at::timestamptz FROM s '
        "WHERE country = 'de'"
    )

    def arrow() -> int:
        options = arrow_csv.ConvertOptions(include_columns=list(KEPT))
        found = arrow_csv.read_csv(io.BytesIO(data), convert_options=options)
        return len(found.filter(pc.equal(found["country"], "de")))

    return {
        "tidegate, country = 'de'": ours(CsvFormat(names, header=True), sql, data, "x.csv"),
        "pyarrow.csv, 5 fields, country = 'de'": arrow,
    }


def of_avro(events: list[dict[str, Any]]) -> dict[str, Callable[[], int]]:
    """A container file: all 40 fields, 3 of them."""
    import fastavro

    kinds = {int: "long", float: "double", str: ["null", "string"]}
    fields = [{"name": name, "type": kinds[type(value)]} for name, value in events[0].items()]
    opened = io.BytesIO()
    fastavro.writer(opened, {"type": "record", "name": "event", "fields": fields}, events, codec="null")
    data = opened.getvalue()
    format_ = AvroFormat.of_file(io.BytesIO(data), "x.avro")

    def everything() -> int:
        found: list[Any] = list(fastavro.reader(io.BytesIO(data)))
        return len(pa.array([one["id"] for one in found]))

    return {
        "tidegate, 40 fields": ours(format_, "SELECT * FROM s", data, "x.avro"),
        "tidegate, 3 fields": ours(format_, "SELECT id, country, amount FROM s", data, "x.avro"),
        "fastavro, 40 fields as dictionaries": everything,
    }


def main() -> None:
    """Runs all and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    events = list(rows(asked.rows))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.json"
        data = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events).encode()
        path.write_bytes(data)
        table(
            f"JSON, {asked.rows:,} lines, {len(data) >> 20} MB", asked.rows, asked.turns, of_json(path, data)
        )
    names = tuple(events[0])
    text = "".join(",".join(map(str, event.values())) + "\n" for event in events)
    data = (",".join(names) + "\n" + text).encode()
    table(f"CSV, {len(data) >> 20} MB", asked.rows, asked.turns, of_csv(data, names))
    some = events[: max(1, asked.rows // 2)]
    found = table("Avro", len(some), asked.turns, of_avro(some))
    all_, few = found["tidegate, 40 fields"], found["tidegate, 3 fields"]
    print(f"  3 of 40 fields are {all_ / few:.1f}× faster than all")


if __name__ == "__main__":
    main()
