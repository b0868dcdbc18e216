"""What people see of results: tables that fit, previews, HTML; and short errors in notebooks and tracebacks."""

from __future__ import annotations

import datetime as dt
import pickle
import traceback
from collections.abc import Callable, Iterator

import polars as pl
import pyarrow as pa
import pytest

import tidegate
from tidegate.query.display import Cells, record_text, table_text, table_width
from tidegate.query.display.text import cell_count
from tidegate.text import format_duration


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8, at timestamptz, payload jsonb, span interval)")
        at, day = dt.datetime(2026, 1, 2, tzinfo=dt.UTC), dt.timedelta(1)
        db.append(
            "t", {"id": [1, None], "at": [at, None], "payload": ['{"a":"<b>"}', None], "span": [day, None]}
        )
        db.sql("CREATE TABLE many (id int8, note text)")
        db.append("many", {"id": [*range(1, 101)], "note": ["x" * 40] * 100})
        yield db


def test_a_result_shows_itself(db: tidegate.Database, capsys: pytest.CaptureFixture[str]) -> None:
    r = db.sql("SELECT id, payload FROM t")
    assert repr(r).split("\n")[:4] == [
        "id │ payload",
        "───┼────────────",
        ' 1 │ {"a":"<b>"}',
        " ∅ │ ∅",
    ]
    assert repr(r).split("\n")[4].startswith("(2 rows, from local: read 1 of 1 part,")
    r.show()
    assert capsys.readouterr().out == repr(r) + "\n"
    html = r._repr_html_()
    assert "&quot;&lt;b&gt;&quot;" in html
    assert 'title="NULL"' in html
    assert "(2 rows, from local" in html
    assert repr(db.sql("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS x")).startswith("CREATE VIEW")


@pytest.mark.parametrize(("library", "method"), [("pandas", "df"), ("polars", "pl")])
def test_a_library_that_is_missing_is_named(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch, library: str, method: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(tidegate.UnsupportedError, match=f"needs {library}(.|\n)*pip install {library}"):
        getattr(db.sql("SELECT id FROM t"), method)()


def test_a_preview_says_how_much_there_is(db: tidegate.Database) -> None:
    r = db.sql("SELECT id FROM many ORDER BY id")
    assert repr(r).count("\n") == 22
    assert "(first 20 of 100 rows" in repr(r)
    assert repr(r) == repr(r)
    assert len(r.rows()) == len(r) == 100
    batches = r.batches()
    assert sum(batch.num_rows for batch in batches) == 100


def test_rows_come_as_any_library_wants_them(db: tidegate.Database) -> None:
    r = db.sql("SELECT id, span FROM t")
    assert [tuple(row) for row in r] == [*r] == r.rows() == [(1, tidegate.Interval(0, 1, 0)), (None, None)]
    assert pa.table(r).equals(r.arrow())
    assert pl.DataFrame(db.sql("SELECT id FROM t")).rows() == [(1,), (None,)]
    assert r.pl()["span"].to_list() == [{"months": 0, "days": 1, "microseconds": 0}, None]
    assert db.sql("SELECT * FROM t").pl().columns == ["id", "at", "payload", "span"]
    one = db.sql("SELECT id FROM many")
    assert sum(1 for _ in one) == sum(1 for _ in one) == 100


def test_a_result_explains_itself(db: tidegate.Database) -> None:
    r = db.sql("SELECT 1; SELECT id FROM many WHERE id > $1", [50])
    assert len(r) == 50
    assert "Scan many" in repr(r.explain())
    assert "rows" in r.explain(analyze=True).text()


def test_a_database_shows_itself(db: tidegate.Database) -> None:
    assert repr(db) == "<tidegate.Database memory: 2 collections, 1 view>"
    lines = repr(db.status()).split("\n")
    assert lines[1].split(" │ ")[0].strip() == "collection"
    assert sorted(line.split()[0] for line in lines[3:5]) == ["many", "t"]
    assert lines[5:] == ["views: v"]
    assert "<table" in db._repr_html_()
    with tidegate.open("memory://") as empty:
        assert repr(empty).endswith(": empty>")
        assert "no collections yet" in repr(empty.status())
    assert repr(empty).endswith("(closed)>")


@pytest.mark.parametrize(
    "fail",
    [
        lambda db: db.sql("SELEC 1"),
        lambda db: db.sql("SELECT nope FROM t").rows(),
        lambda db: db.sql("SELECT 1 / (id - 1) FROM t").rows(),
        lambda db: db.append("t", {"id": ["x"]}),
        lambda db: list(db.sql("SELECT 1 / (id - 100) FROM many")),
        lambda db: db.compact("nope"),
    ],
)
def test_an_error_has_no_frames_of_tidegate(
    db: tidegate.Database, fail: Callable[[tidegate.Database], object]
) -> None:
    with pytest.raises(tidegate.TidegateError) as caught:
        fail(db)
    error = caught.value
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert {name for name in frames if name != __file__} <= {"<tidegate>"}
    printed = "".join(traceback.format_exception(error))
    assert f"tidegate.{type(error).__name__}: " in printed
    assert "/src/tidegate/" not in printed
    assert "During handling" not in printed
    assert "\n".join(error._render_traceback_()) == f"{type(error).__name__}: {error}"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        (
            {"id": [1, "x"]},
            ['column "id" is int8', "row 1 of the batch", "'x' of the type str", "hint: convert"],
        ),
        ({"id": [1, 2**70]}, ["row 1 of the batch", "too large for int8"]),
        ({"at": ["2026-01-01", None]}, ['"at" is timestamptz', "row 0", "fromisoformat"]),
        ({"payload": [None, {"a": 1}]}, ["jsonb", "row 1", "json.dumps(value)"]),
        ({"payload": ["1", "{"]}, ["invalid input syntax", "row 1", '"payload", jsonb', "leave the row out"]),
        (
            {"id": pa.array([1, 2**63], pa.uint64())},
            ["does not fit int8", "row 1", "id = 9223372036854775808"],
        ),
        ({"id": [1, 2, 3]}, ["different numbers of values: id 3, at 2"]),
    ],
)
def test_append_says_what_is_wrong_and_where(
    db: tidegate.Database, rows: dict[str, object], parts: list[str]
) -> None:
    empty: dict[str, object] = {key: [None, None] for key in ("id", "at", "payload", "span")}
    with pytest.raises(tidegate.TidegateError) as caught:
        db.append("t", {**empty, **rows})
    for part in parts:
        assert part in str(caught.value)
    with pytest.raises(tidegate.TypeMismatch, match="from_pylist"):
        db.append("t", [{"id": 1}])


def test_a_table_fits_any_width() -> None:
    names = tuple(f"column_{i}" for i in range(12))
    cells = Cells(names, (True, *[False] * 11), [["5", *["wort 文字 " * i for i in range(11)]]])
    assert table_text(cells)[2].startswith("       5 │")
    for width in (30, 40, 80, 100, 140, 200, 400):
        lines = table_text(cells, width)
        assert max(cell_count(line) for line in lines) <= width
        shown = {name for name in names if name in lines[0]}
        left_out = lines[3:]
        assert shown or width < 40
        if len(shown) < 12 and width >= 140:
            assert all(name in str(left_out) for name in names if name not in shown)
    assert "columns not shown: " in table_text(cells, 80)[3]
    assert len(table_text(cells, table_width(cells))) == 3


def test_rows_below_each_other() -> None:
    cells = Cells(("id", "note"), (True, False), [["1", "a" * 30], ["2", "∅"]])
    assert record_text(cells, 24) == [
        "─[ row 1 ]──────────────",
        "id   │ 1",
        "note │ " + "a" * 17,
        "     │ " + "a" * 13,
        "─[ row 2 ]──────────────",
        "id   │ 2",
        "note │ ∅",
    ]


def test_times_in_units_that_people_read() -> None:
    given = (0.00012, 0.0045, 0.9994, 1.2345, 59.9, 125, 3600 * 3 + 720, 86400 * 3)
    assert [format_duration(seconds) for seconds in given] == [
        "120 µs", "4.5 ms", "999 ms", "1.23 s", "59.9 s", "2 min 5 s", "3 h 12 min", "3 days 0 h",
    ]  # fmt: skip
