"""The query console as a program sees it: several statements, their places, pictures of plans, names for the editor, downloads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
import tidegate.server
from tests.server.web_site import Site, serving, tiled
from tidegate.cli.prompt.completion import KEY_WORDS
from tidegate.server.web.query.script import MAX_STATEMENTS, split_script

JOIN = "SELECT a.country, count(*) AS n FROM orders a JOIN orders b ON a.id = b.id WHERE a.customer < 500 GROUP BY 1"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with tiled("memory://", 4) as db:
        db.sql("CREATE VIEW cheap AS SELECT id FROM orders WHERE price < 5")
        db.sql('CREATE TABLE "Odd name" ("Order" int8)')
        with serving(db) as found:
            yield found


def run(site: Site, sql: str, box: str = "console", **fields: str) -> str:
    answer = site.post("/run", {"sql": sql, "box": box, **fields}, X_Tidegate="1")
    assert answer.status == 200
    return answer.text


def sections(text: str) -> list[str]:
    return re.findall(r'<section class="(?:card )?answer.*?</section>', text, re.DOTALL)


# ---------------------------------------------------------------- several statements


def test_each_statement_has_its_own_answer(site: Site) -> None:
    text = run(site, "SET stats_filter = off;\nSELECT 1 AS a; -- one\nSELECT id FROM orders LIMIT 3;", "own")
    first, second, third = sections(text)
    assert re.search(r"SET</h2><p class=\"cost\">in [\d.]+ ms</p>", first)
    assert "1 row" in second
    assert '<code class="statement">SELECT 1 AS a</code>' in second
    assert "3 rows" in third
    assert '<b class="path">peek</b> in ' in third
    assert 'data-state="done" data-rows="4"' in text
    assert ">off<" in run(site, "SHOW stats_filter", "own"), (
        "statements of a run and later runs share a session"
    )


def test_what_follows_an_error_is_not_run(site: Site) -> None:
    text = run(site, "SELECT 1;\n  SELECT prise FROM orders; SELECT 2; SELECT 3")
    answers = sections(text)
    assert len(answers) == 2
    assert "line 2, column 10" in answers[1]
    assert (
        '<pre class="caret">  SELECT prise FROM orders; SELECT 2; SELECT 3\n         ^^^^^</pre>'
        in answers[1]
    )
    assert "2 statements after it: not run." in text
    assert 'data-state="failed"' in text


def test_a_text_that_cannot_be_split_runs_nothing(site: Site) -> None:
    text = run(site, "SELECT 1; SELECT 'open")
    assert len(sections(text)) == 1
    assert 'role="alert"' in text
    assert f"at most {MAX_STATEMENTS} statements" in run(site, "SELECT 1;" * (MAX_STATEMENTS + 1))
    assert "there is no statement here" in run(site, " -- nothing")


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT 1; SELECT prise FROM orders", "prise"),
        ("SELECT '\U0001f30a' AS wave; SELECT prise FROM orders", "prise"),
        ("EXPLAIN ANALYZE SELECT prise FROM orders", "prise"),
        ("SELECT 1;\nEXPLAIN (ANALYZE, FORMAT TEXT) SELECT prise FROM orders", "prise"),
    ],
)
def test_an_error_says_where_it_is_in_the_whole_text(site: Site, sql: str, word: str) -> None:
    """In UTF-16 units, as the editor counts."""
    text = run(site, sql)
    start, end = (int(re.findall(rf'data-{name}="(\d+)"', text)[0]) for name in ("from", "to"))
    assert sql.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le") == word


def test_statements_keep_their_lines() -> None:
    script = split_script("-- first\nSELECT 1; SELECT\n 2;\n\n;")
    assert [one.text for one in script] == ["SELECT 1", "SELECT\n 2"]
    assert script[1].sql == " " * 8 + "\n" + " " * 10 + "SELECT\n 2"


# ---------------------------------------------------------------- rows


def test_columns_carry_the_order_of_their_type(site: Site) -> None:
    values = (
        "('10'::numeric, '1 month'::interval, 'NaN'::float8), ('9.5', '31 days', NULL), (NULL, '20 days', -1)"
    )
    text = run(site, f"SELECT * FROM (VALUES {values}) AS t (n, i, f)")
    ranks = dict(re.findall(r'title="(\w): [^"]+" data-kind="\w+" data-ranks="([\d ]+)"', text))
    assert ranks["n"] == "2 1 "
    assert ranks["f"] == "2  1"
    months, days, fewer = map(int, ranks["i"].split(" "))
    assert fewer < months
    assert fewer < days


def test_long_values_are_sent_whole_up_to_a_limit(site: Site) -> None:
    text = run(site, "SELECT repeat('x', 700) AS a, repeat('y', 100000) AS b, '{\"k\": 1}'::jsonb AS c")
    assert f'data-value="{"x" * 700}" data-length="700"' in text
    assert 'data-length="100000"' in text
    assert "y" * 1_000 not in text
    assert '<span class="document">{&quot;k&quot;:1}</span>' in text


# ---------------------------------------------------------------- EXPLAIN ANALYZE


@pytest.mark.parametrize(
    ("sql", "path", "pieces"),
    [
        (
            "SELECT id, price FROM orders WHERE customer < 3000",
            "local",
            ("Stages", "Scan orders", "proven whole"),
        ),
        ("SELECT id FROM orders LIMIT 5", "peek", ("Stages", "Scan orders")),
        ("SELECT count(*) FROM orders", "metadata", ("Aggregate", "0 of 20 parts read")),
        (JOIN, "embedded", ("Operators", "Hash join", "Join inner", "└ ")),
        ("SELECT 1", "metadata", ("Project",)),
    ],
)
def test_an_analysis_is_a_picture(site: Site, sql: str, path: str, pieces: tuple[str, ...]) -> None:
    for text in (run(site, f"EXPLAIN ANALYZE {sql}"), run(site, sql, analyze="1")):
        assert "Analysis: " in text
        assert f'<b class="path">{path}</b>' in text
        assert '<ul class="plan"><li><div class="node">' in text
        for piece in pieces:
            assert piece in text
        if path != "metadata":
            assert 'class="rows"></rect>' in text
            assert 'class="time"></rect>' in text


def test_other_explanations_stay_text(site: Site) -> None:
    assert "&quot;Plan&quot;" in run(site, "EXPLAIN (ANALYZE, FORMAT JSON) SELECT 1")
    assert '<pre class="said">Project' in run(site, "EXPLAIN SELECT 1")
    assert "EXPLAIN ANALYZE would run the DELETE" in run(site, "EXPLAIN ANALYZE DELETE FROM orders")
    assert "Analysis" not in run(site, "SHOW TABLES", analyze="1")


# ---------------------------------------------------------------- names for the editor, downloads, headers


def test_the_catalog(site: Site) -> None:
    found = json.loads(site.get("/catalog").text)
    tables = {one["name"]: (one["sql"], one["kind"]) for one in found["tables"]}
    assert tables["orders"] == ("orders", "table")
    assert tables["cheap"] == ("cheap", "view")
    assert tables["Odd name"] == ('"Odd name"', "table")
    functions = {name: (signature, doc) for name, signature, doc in found["functions"]}
    assert "date_trunc(text" in functions["date_trunc"][0]
    assert functions["count"][0] == "aggregate"
    settings = [name for name, _ in found["settings"]]
    assert "stats_filter" in settings
    assert "part_bytes" not in settings, "clients cannot change it"
    columns = json.loads(site.get("/catalog?of=orders&of=Odd%20name&of=nothing").text)["columns"]
    assert ["created_at", "timestamptz", "created_at"] in columns["orders"]
    assert columns["Odd name"] == [["Order", "int8", '"Order"']]
    assert "nothing" not in columns


def test_results_of_queries_can_be_downloaded(site: Site) -> None:
    select, explain = sections(run(site, "SELECT 1; EXPLAIN SELECT 1"))
    assert 'formaction="/download?format=parquet"' in select
    assert "/download" not in explain
    fields = {"sql": "SELECT id FROM orders ORDER BY id LIMIT 2", "box": "console"}
    assert site.post("/download?format=csv", fields).text == "id\n0\n1\n"
    refused = site.post("/download?format=csv", {**fields, "sql": "DELETE FROM orders"})
    assert refused.status == 400


def test_what_changes_rows_is_not_downloaded_which_would_run_it_again() -> None:
    with tidegate.open("memory://") as db, serving(db, write=True) as site:
        db.sql("CREATE TABLE t (id int8)")
        shown = run(site, "PREPARE w (int8) AS INSERT INTO t VALUES ($1) RETURNING id; EXECUTE w (5)", "own")
        assert ">5<" in shown
        assert "/download" not in shown
        refused = site.post("/download?format=csv", {"sql": "EXECUTE w (6)", "box": "own"})
        assert refused.status == 400
        shown = run(site, "PREPARE r AS SELECT id FROM t; EXECUTE r", "own")
        assert "/download" in shown
        assert site.post("/download?format=csv", {"sql": "EXECUTE r", "box": "own"}).text == "id\n5\n"


def test_rows_of_returning_are_shown_with_what_was_done() -> None:
    with tidegate.open("memory://") as db, serving(db, write=True) as site:
        db.sql("CREATE TABLE t (id int8, PRIMARY KEY (id) NOT ENFORCED); COMMENT ON TABLE t IS '<script>'")
        shown = run(site, "INSERT INTO t SELECT * FROM generate_series(1, 1200) RETURNING id")
        assert "INSERT 0 1200" in shown
        assert "200 more rows" in shown
        assert "download" not in shown, "it would insert again"
        page = site.get("/c/t").text
        assert "PRIMARY KEY (id) NOT ENFORCED" in page
        assert "COMMENT ON TABLE t IS '&lt;script&gt;'" in page.replace("&#39;", "'").replace("&#x27;", "'")


def test_editors_know_the_words_of_statements() -> None:
    written = (Path(tidegate.server.__path__[0]) / "web/static/console/words.js").read_text("utf-8")
    words = {word for text in re.findall(r'^  "(.*?) ?"', written, re.MULTILINE) for word in text.split()}
    spoken = "MERGE INTO USING WHEN NOT MATCHED THEN RETURNING ON CONFLICT DO NOTHING TRUNCATE COMMENT PREPARE EXECUTE DEALLOCATE"
    for known in (words, set(KEY_WORDS)):
        assert set(spoken.split()) <= known


def test_the_nonce_of_styles_is_new_for_each_page(site: Site) -> None:
    pages = [site.get("/query") for _ in range(2)]
    nonces = [re.findall(r'<meta name="style-nonce" nonce="([^"]+)">', page.text)[0] for page in pages]
    assert len(set(nonces)) == 2
    for page, nonce in zip(pages, nonces, strict=True):
        policy = page.headers["Content-Security-Policy"]
        assert f"style-src 'self' 'nonce-{nonce}'" in policy
        assert "script-src 'self';" in policy
        assert "default-src 'none'" in policy


def test_an_error_while_typing_leaves_nothing_of_the_query_before(site: Site) -> None:
    for fields in ({"c": "orders"}, {}):
        text = site.post("/explain", {"sql": "SELECT prise FROM orders", "box": "x", **fields}).text
        assert 'role="alert"' in text
        assert 'id="chart"' in text
        assert '<div id="conditions"></div>' in text
        assert 'class="tile read' not in text


def test_the_lake_may_be_empty() -> None:
    with tidegate.open("memory://") as db, serving(db) as site:
        assert json.loads(site.get("/catalog").text)["tables"] == []
        assert site.get("/query?q=SELECT%201").text.count("SELECT 1</textarea>") == 1
