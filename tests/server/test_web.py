"""The pages as programs ask them: what they say, how they answer errors, and whom they let in."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.server.web_site import Site, serving, tiled
from tidegate.config import Config, SettingScope
from tidegate.server.gateway import Gateway
from tidegate.server.web.guard import BODY_BYTES, COOKIE
from tidegate.server.web.markup import Html, el
from tidegate.server.web.query.boxes import MAX_BOXES, QueryBoxes

EVIL = "<script>alert('x')</script>&\"/.."
HTML = "text/html"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with tiled("memory://") as db:
        db.sql("CREATE VIEW cheap AS SELECT id FROM orders WHERE price < 5")
        quoted = EVIL.replace('"', '""')
        db.sql(f'CREATE TABLE "{quoted}" ("{quoted}" text)')
        db.append(EVIL, {EVIL: [EVIL]})
        with serving(db) as found:
            yield found


def box(site: Site, page: str = "/c/orders") -> str:
    found = re.search(r'name="box" value="([^"]+)"', site.get(page).text)
    assert found is not None
    return found[1]


def test_the_collections(site: Site) -> None:
    page = site.get("/", Accept=HTML)
    assert page.status == 200
    assert 'href="/c/orders"' in page.text
    assert "<b>19,200</b> rows" in page.text
    assert 'class="mini"' in page.text
    assert "cheap" in page.text
    assert "read-only" in page.text


def test_one_collection(site: Site) -> None:
    assert (page := site.get("/c/orders")).status == 200
    for said in ("<svg", "created_at", "customer", "timestamptz", "compacted 1×", "appended", 'data-marks="'):
        assert said in page.text
    missing = site.get("/c/nothing")
    assert (missing.status, "does not exist" in missing.text) == (404, True)
    assert "is a view, and has no parts" in site.get("/c/cheap", Accept=HTML).text
    assert site.get("/nowhere").status == 404


def test_axes_are_expressions(site: Site) -> None:
    page = site.get("/c/orders?x=date_trunc('day',created_at)&y=price*2")
    assert page.status == 200
    assert "date_trunc" in page.text
    assert "price*2" in page.text
    wrong = site.get("/c/orders?y=prise")
    assert wrong.status == 200
    assert "prise" in wrong.text
    assert 'role="alert"' in wrong.text


def test_explain_counts_parts_and_conditions(site: Site) -> None:
    sql = "SELECT id FROM orders WHERE created_at > '2026-03-15' AND customer < 2000 AND price * 2 > -1"
    pieces = site.post("/explain", {"sql": sql, "box": box(site), "c": "orders"})
    assert pieces.status == 200
    ids = re.findall(r'<(?:div|figure|svg)[^>]* id="(\w+)"', pieces.text)
    assert [one for one in ids if one in ("verdict", "chart", "conditions")] == [
        "verdict",
        "chart",
        "conditions",
    ]
    kept, total = map(int, re.findall(r"<b>(\d+) of (\d+) parts</b>", pieces.text)[0])
    assert 0 < kept < total
    assert pieces.text.count('class="conjunct"') == 3
    assert pieces.text.count("<b>prunes ") == 2
    assert "parts proven whole" in pieces.text
    alone = site.post("/explain", {"sql": sql, "box": box(site), "c": "orders", "only": "1"})
    assert _drawn(alone.text) != _drawn(pieces.text), "one condition leaves out other parts than all of them"


def _drawn(text: str) -> list[str]:
    return re.findall(r'<path d="([^"]+)" class="tile', text)


def test_explain_of_what_is_no_query(site: Site) -> None:
    name = box(site)
    for sql, said in (
        ("", "Type a query"),
        ("SHOW TABLES", "SHOW"),
        ("DROP TABLE orders", "DROP"),
        ("SELECT prise FROM orders", "does not exist"),
        ("SELECT id FROM orders WHERE id = ", "alert"),
        ("SELECT id FROM orders AS OF 99999999999999", "ahead of this machine"),
    ):
        pieces = site.post("/explain", {"sql": sql, "box": name, "c": "orders"})
        assert (pieces.status, said in pieces.text) == (200, True), sql
    assert site.get("/c/orders").status == 200


def test_a_join_shows_each_collection_without_spark(site: Site) -> None:
    sql = "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id WHERE a.customer < 500"
    first = site.post("/explain", {"sql": sql, "box": "b", "at": "0"}).text
    second = site.post("/explain", {"sql": sql, "box": "b", "at": "1"}).text
    assert "path: embedded" in first
    assert first.count('type="radio"') == 2
    assert re.findall(r"<b>\d+ of \d+ parts</b>", first) != re.findall(r"<b>\d+ of \d+ parts</b>", second)


def test_run_shows_rows_path_stages(site: Site) -> None:
    sql = "SELECT id, country, NULL::text AS nothing FROM orders WHERE customer < 300 ORDER BY id"
    pieces = site.post("/run", {"sql": sql, "box": box(site)}, X_Tidegate="1").text
    assert pieces.startswith('<div id="result"')
    assert '<b class="path">local</b>' in pieces
    assert re.search(r"read \d+ of \d+ parts", pieces)
    assert 'title="NULL">∅' in pieces
    assert "<summary>" in pieces
    assert "<code>prune</code>" in pieces
    whole = site.post("/run", {"sql": "SELECT 1", "box": "c"})
    assert whole.text.startswith("<!doctype html>"), "a browser without scripts gets a page"


def test_results_are_bounded(site: Site) -> None:
    many = site.post("/run", {"sql": "SELECT id FROM orders", "box": "many"}, X_Tidegate="1").text
    assert many.count("<tr>") == 1 + 1_000 + len(re.findall("<code>", many)) + 1, "rows, stages, two heads"
    assert "18,200 more rows" in many
    wide = site.post("/run", {"sql": "SELECT repeat('x', 100000) AS x", "box": "w"}, X_Tidegate="1").text
    assert len(wide) < 5_000
    assert "xx…" in wide


def test_errors_have_a_caret(site: Site) -> None:
    text = site.post("/run", {"sql": "SELECT id,\n  prise FROM orders", "box": "e"}, X_Tidegate="1").text
    assert "line 2, column 3" in text
    assert '<pre class="caret">  prise FROM orders\n  ^^^^^</pre>' in text
    assert "did you mean" in text


def test_nothing_is_written(site: Site) -> None:
    for sql in ("DROP TABLE orders", "INSERT INTO orders (id) VALUES (1)", "SELECT 1; DELETE FROM orders"):
        text = site.post("/run", {"sql": sql, "box": "n"}, X_Tidegate="1").text
        assert "this server is read-only" in text, sql
    assert "<b>19,200</b> rows" in site.get("/").text


def test_settings_are_of_the_box_alone(site: Site) -> None:
    sql = "SELECT id FROM orders WHERE customer < 10"
    assert "SET" in site.post("/run", {"sql": "SET stats_filter = off", "box": "one"}, X_Tidegate="1").text
    kept = [site.post("/explain", {"sql": sql, "box": one}).text for one in ("one", "two")]
    counts = [re.findall(r"<b>(\d+) of (\d+) parts</b>", text)[0] for text in kept]
    assert counts[0][0] == counts[0][1]
    assert int(counts[1][0]) < int(counts[1][1])


def test_one_part_and_all_as_a_table(site: Site) -> None:
    marks = re.findall(r'data-marks="([^"]+)"', site.get("/c/orders").text)[0].split(";")
    number = marks[0].split(" ")[8]
    fields = {
        "sql": "SELECT id FROM orders WHERE customer < 0",
        "box": "p",
        "part_of": "orders",
        "part": number,
    }
    text = site.post("/part", fields).text
    assert "pruned" in text
    assert "customer &lt; 0 is false" in text
    assert "there is no part" in site.post("/part", {**fields, "part": "99999999"}).text
    assert "there is no" in site.post("/part", {**fields, "part": "x", "part_of": "nothing", "sql": ""}).text
    listed = site.post("/parts", {"sql": "", "box": "p", "c": "orders"}).text
    assert listed.count("<tr>") == 1 + len(marks)


def test_everything_is_escaped(site: Site) -> None:
    evil = "%3Cscript%3Ealert('x')%3C/script%3E&%22/.."
    for page in ("/", "/health", f"/c/{evil}", "/maintenance", f"/maintenance?orphans={evil}"):
        answer = site.get(page, Accept=HTML)
        assert answer.status == 200, page
        assert "<script>alert" not in answer.text
        assert "&lt;script&gt;alert" in answer.text
    quoted = EVIL.replace('"', '""')
    for path in ("/run", "/explain"):
        text = site.post(path, {"sql": f'SELECT * FROM "{quoted}"', "box": EVIL}, X_Tidegate="1").text
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert" in text
    assert "<script>alert" not in site.get("/query?sql=%3C/textarea%3E%3Cscript%3Ealert(1)%3C/script%3E").text
    assert el("p", EVIL, Html("<br>"), title=EVIL) == (
        '<p title="&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;/..">'
        "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;/..<br></p>"
    )


def test_health_and_metrics(site: Site) -> None:
    health = json.loads(site.get("/health", Accept="application/json").text)
    assert health["status"] == "ok"
    assert health["metadata"]["reachable"] is True
    assert health["format"] == 1
    one = health["collections"]["orders"]
    assert one["since"] <= one["upper"]
    assert one["rows"] == 19_200
    page = site.get("/health", Accept=HTML)
    assert "upper" in page.text
    metrics = site.get("/metrics")
    assert metrics.headers["Content-Type"].startswith("text/plain; version=")
    assert "# TYPE tidegate_statements_total counter" in metrics.text


def test_views_and_settings(site: Site) -> None:
    views = site.get("/views").text
    assert "CREATE VIEW cheap AS SELECT id FROM orders WHERE price &lt; 5" in views
    assert 'href="/c/orders"' in views
    settings = site.get("/settings?box=mine").text
    for name, meaning in Config.meanings().items():
        assert f'id="setting-{name}">{name}</code>' in settings
        assert str(el("span", meaning, class_="prose")) in settings
    assert settings.count('action="/settings"') == sum(
        scope is not SettingScope.DATABASE for scope in Config.scopes().values()
    )
    changed = site.post("/settings", {"box": "mine", "name": "audit", "value": "0.5", "do": "set"})
    assert (changed.status, changed.headers["Location"]) == (303, "/settings?box=mine#setting-audit")
    assert 'value="0.5"' in site.get("/settings?box=mine").text
    assert 'value="0.5"' not in site.get("/settings?box=other").text
    site.post("/settings", {"box": "mine", "name": "audit", "do": "reset"})
    assert 'value="0.5"' not in site.get("/settings?box=mine").text
    wrong = site.post("/settings", {"box": "mine", "name": "audit", "value": "7", "do": "set"})
    assert (wrong.status, "audit cannot be" in wrong.text) == (422, True)
    assert site.post("/settings", {"box": "mine", "name": "nonsense", "value": "1"}).status == 422


def test_headers(site: Site) -> None:
    for path in ("/", "/c/orders", "/static/tidegate.js", "/nowhere", "/health"):
        headers = site.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == ("no-cache" if path.startswith("/static") else "no-store")
    page = site.get("/c/orders").text
    assert not re.search(r"<[^>]+\s(style|on\w+)=", page)
    assert all("src=" in one for one in re.findall(r"<script[^>]*>", page))


def test_other_names_and_other_sites_are_refused(site: Site) -> None:
    assert site.get("/", Host="evil.example").status == 421
    assert site.get("/", Host="evil.example:80").status == 421
    assert site.get("/", Host="localhost:1234").status == 200
    fields = {"sql": "SELECT 1", "box": "x"}
    for headers in (
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ):
        assert site.post("/run", fields, **headers).status == 403, headers
    assert site.post("/run", fields, Sec_Fetch_Site="same-origin").status == 200
    assert site.post("/run", fields, Origin=site.url).status == 200
    assert site.ask("PUT", "/run", b"", {}).status == 405
    assert site.get("/run").status == 405


def test_bodies_are_bounded(site: Site) -> None:
    assert site.post("/run", {"sql": "x" * (BODY_BYTES + 1), "box": "x"}).status == 413
    with socket.create_connection(("127.0.0.1", site.port)) as plain:
        plain.sendall(
            b"POST /run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"100000\r\n" + b"x" * 0x100000 + b"\r\n5\r\nxxxxx\r\n"
        )
        assert b"413" in plain.recv(64)
    assert site.post("/run", {f"f{i}": "x" for i in range(500)}).status == 200
    assert site.ask("POST", "/explain", b"\xff\xfe%ZZ", {}).status == 200
    assert site.post("/explain", {"sql": "SELECT 1", "at": "9" * 400, "only": "-1"}).status == 200


def test_with_a_token() -> None:
    with tiled("memory://", 1) as db, serving(db, token="the token", hosts=("*",)) as site:
        assert site.get("/").status == 401
        away = site.get("/", Accept=HTML)
        assert (away.status, away.headers["Location"]) == (303, "/login")
        assert site.get("/metrics").status == 401
        assert site.post("/run", {"sql": "SELECT 1"}).status == 401
        assert site.get("/", Authorization="Bearer the tokem").status == 401
        assert site.get("/", Authorization="Bearer the token").status == 200
        assert site.get("/", Authorization="Bearer thé token").status == 401
        assert json.loads(site.get("/health").text) == {"status": "ok"}
        assert "collections" in json.loads(site.get("/health", Authorization="bearer the token").text)
        wrong = site.post("/login", {"token": "guess"})
        assert (wrong.status, "Wrong token" in wrong.text) == (401, True)
        right = site.post("/login", {"token": "the token"})
        cookie = right.headers["Set-Cookie"]
        assert right.status == 303
        assert "httponly" in cookie.lower()
        assert "samesite=strict" in cookie.lower()
        assert "the token" not in cookie
        assert cookie.startswith(COOKIE + "=")
        assert site.get("/", Cookie=cookie.partition(";")[0]).status == 200
        assert site.get("/", Cookie=f"{COOKIE}=0").status == 401
        assert (
            site.post(
                "/run", {"sql": "SELECT 1"}, Cookie=cookie.partition(";")[0], Sec_Fetch_Site="cross-site"
            ).status
            == 403
        )


def test_with_write(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db, serving(db, write=True) as site:
        assert "Empty lake" in site.get("/").text
        for sql in ("CREATE TABLE t (id int8)", "INSERT INTO t VALUES (1), (2)"):
            assert "trouble" not in site.post("/run", {"sql": sql, "box": "w"}, X_Tidegate="1").text
        assert "2 rows" in site.post("/run", {"sql": "SELECT * FROM t", "box": "w"}, X_Tidegate="1").text
        assert "read-write" in site.get("/").text
        outside = "CREATE SOURCE s FROM FILES '/etc/*.json' FORMAT JSON"
        assert (
            "does not read files there"
            in site.post("/run", {"sql": outside, "box": "w"}, X_Tidegate="1").text
        )


def test_a_lake_that_cannot_be_read() -> None:
    with tidegate.open("memory://") as db, serving(db, token="t") as site:
        db.close()
        failing = site.get("/health", Authorization="Bearer t")
        assert failing.status == 503
        assert json.loads(failing.text)["status"] == "failing"
        assert "was closed" in failing.text
        assert json.loads(site.get("/health").text) == {"status": "failing"}
        page = site.get("/", Authorization="Bearer t")
        assert (page.status, "was closed" in page.text) == (503, True)


SLOW = "SELECT count(*) FROM big WHERE " + "md5(" * 12 + "id::text" + ")" * 12 + " < '0'"


def test_cancel_and_a_new_query_end_the_one_that_runs(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE big (id int8)")
        for i in range(4):
            db.append("big", {"id": pa.array(np.arange(250_000) + i)})
        with serving(db) as site:
            said: list[str] = []

            def slow() -> None:
                said.append(site.post("/run", {"sql": SLOW, "box": "slow"}, X_Tidegate="1").text)

            def running() -> threading.Thread:
                thread = threading.Thread(target=slow)
                thread.start()
                return thread

            thread = running()
            while site.post("/cancel", {"box": "slow"}).status != 204:
                time.sleep(0.05)
            thread.join()
            assert "the query was cancelled" in said[-1]
            thread = running()
            time.sleep(0.5)
            assert "1 row" in site.post("/run", {"sql": "SELECT 1", "box": "slow"}, X_Tidegate="1").text
            thread.join()
            assert "the query was cancelled" in said[-1]
            assert site.post("/cancel", {"box": "slow"}).status == 404
            _leaves(site, {"sql": SLOW, "box": "left"})
            while not re.search(r"queries_total{[^}]*cancelled[^}]*} 3.0", site.get("/metrics").text):
                time.sleep(0.1)


def _leaves(site: Site, fields: dict[str, str]) -> None:
    """Asks, and goes away."""
    body = urlencode(fields).encode()
    with socket.create_connection(("127.0.0.1", site.port)) as plain:
        plain.sendall(
            b"POST /run HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        time.sleep(0.5)


def test_boxes_are_forgotten() -> None:
    with tidegate.open("memory://") as db:
        gateway = Gateway(db)
        boxes = QueryBoxes(gateway)
        watch = (first := boxes.get("first")).begin()
        for i in range(MAX_BOXES):
            boxes.get(str(i))
        assert boxes.get("first") is not first
        with pytest.raises(tidegate.CancelledError):
            watch.check()
        gateway.close()
