"""FILES and GENERATOR through SQL, in this process: databases that are opened again, files that come late."""

import gzip
import json
from pathlib import Path

import pytest

import tidegate
from tests.ingest.files_bench import PLACES, Bench
from tidegate.errors import BindError, TidegateError


@pytest.fixture(params=PLACES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench.at(request.param, tmp_path / "files")


def ingest(db: tidegate.Database, *names: str) -> None:
    query = db.ingest(list(names), once=True, spark=False)
    query.wait(120)
    assert query.error is None


def test_every_record_once(bench: Bench, tmp_path: Path) -> None:
    where = "&".join(f"{name}={value}" for name, value in bench.options.items())
    pattern = f"{bench.root}/in/**/*.json*" + (f"?{where}" if where else "")
    with tidegate.open(tmp_path / "lake") as db:
        db.sql(f"""
            CREATE SOURCE pays FROM FILES '{pattern}' FORMAT JSON INCLUDE FILE, LINE AS l
            TRANSFORM USING (SELECT (data->>'id')::int8 AS id, file, l FROM pays WHERE data->>'kind' = 'pay')""")
    known: list[tuple[int, str, int]] = []
    for day in range(3):
        rows = [{"id": day * 10 + i, "kind": "pay" if i % 2 else "view"} for i in range(10)]
        data = "\n".join(json.dumps(row) for row in rows).encode()
        plain = bench.put(f"in/{day}/a.json", data + b'\n{"id": "x", "kind": "pay"}', written=1_000_000 - day)
        packed = bench.put(f"in/{day}/b.json.gz", gzip.compress(data))
        known += [(row["id"], name, i + 1) for name in (plain, packed) for i, row in enumerate(rows) if i % 2]  # type: ignore[misc]  # ids are numbers
        with tidegate.open(tmp_path / "lake") as db:
            ingest(db, "pays")
            ingest(db, "pays")
            assert sorted(db.sql("SELECT id, file, l FROM pays").rows()) == sorted(known)
            bad = db.sql(
                "SELECT position->>'file', position->>'line', convert_from(raw, 'utf8') FROM pays_errors"
            ).rows()
            assert sorted(bad) == [
                (f"{bench.root}/in/{d}/a.json", "11", '{"id": "x", "kind": "pay"}') for d in range(day + 1)
            ]
            assert db.sql(f"SELECT count(*) FROM pays WHERE file = '{plain}'").rows() == [(5,)]


def test_columns_from_a_first_file(bench: Bench, tmp_path: Path) -> None:
    options = ", ".join(f"{name.replace('_', ' ')} '{value}'" for name, value in bench.options.items())
    create = f"CREATE SOURCE c FROM FILES '{bench.root}/*.csv' ({options}) FORMAT CSV WITH HEADER INCLUDE TIMESTAMP AS at"
    with tidegate.open(tmp_path / "lake") as db:
        with pytest.raises(BindError, match="there is no file"):
            db.sql(create)
        bench.put("a.csv", b"x,y\n1,2\n")
        db.sql(create)
        bench.put("b.csv", b"y,x\n4,3\n")
        bench.put("c.csv", b"y,z\n4,3\n")
        ingest(db, "c")
        assert sorted(db.sql("SELECT x, y, at > '2020-01-01' FROM c").rows()) == [
            ("1", "2", True),
            ("3", "4", True),
        ]
        ((position, message),) = db.sql("SELECT position->>'file', message FROM c_errors").rows()
        assert position == f"{bench.root}/c.csv"
        assert 'no column "x"' in message


def test_generators(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE SOURCE o FROM GENERATOR orders (ROWS 1000, SEED 3) INCLUDE OFFSET")
        db.sql("CREATE SOURCE a FROM GENERATOR auction (ROWS 1200, START AT '2026-01-01') FOR ALL TABLES")
        db.sql(
            "CREATE SOURCE n FROM GENERATOR counter (ROWS 10) TRANSFORM USING (SELECT 10 / (counter - 3) AS x FROM n)"
        )
        ingest(db, "o", "a", "n")
        assert db.sql('SELECT count(*), min("offset"), max(id) FROM o').rows() == [(1000, 0, 1000)]
        counts = [
            db.sql(f"SELECT count(*) FROM {table}").rows()[0][0] for table in ("users", "auctions", "bids")
        ]
        assert counts == [100, 100, 1000]
        assert str(db.sql("SELECT min(bid_time) FROM bids").rows()[0][0]) == "2026-01-01 00:00:02+00:00"
        assert db.sql("SELECT count(*) FROM n").rows() == [(9,)]
        assert db.sql("SELECT position FROM n_errors").rows() == [('{"row":2}',)]
        with pytest.raises(TidegateError, match="no option COLOR"):
            db.sql("CREATE SOURCE z FROM GENERATOR counter (COLOR 'red')")
