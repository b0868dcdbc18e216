"""EXPLAIN CREATE SOURCE: what would be stored, and what is decoded for it; nothing is made."""

from __future__ import annotations

import pytest

import tidegate
from tidegate.database import Database

CASES = {
    "FROM FILES '/x/*.json' FORMAT JSON INCLUDE FILE, INGESTION TIMESTAMP AS ts TRANSFORM USING (SELECT (data->>'id')::int8 AS id, "
    "data->'a'->0 AS a, file FROM s WHERE mz_now() <= ts + '30 days' AND data#>>'{x,y}' = '1')": """
Store s  id int8, a jsonb, file text
└─ Expire  valid until step_ms(floor_ms(ts + '30 days'))
   └─ Project  (data ->> 'id')::int8 AS id, data -> 'a' -> 0 AS a, file
      └─ Selection  data #>> '{x,y}' = '1'
         └─ Decode JSON  data -> 'x' ->> 'y', data ->> 'id', data -> 'a'
""",
    "FROM GENERATOR auction (ROWS 5) FOR TABLES (bids TRANSFORM USING (SELECT id FROM bids WHERE amount > 5), users AS u)": """
Store bids  id int8
└─ Project  id
   └─ Selection  amount > 5
      └─ Decode GENERATOR BIDS  id, amount
Store u  id int8, org_id int8, name text
└─ Project  id, org_id, name
   └─ Decode GENERATOR USERS  id, org_id, name
""",
    "FROM FILES '/x/*.json' FORMAT JSON TRANSFORM USING (SELECT count(*) AS n FROM s WHERE data->>'e' = 'p') WITH (SPLIT)": """
View s  SELECT count(*) AS n FROM s_stored AS s WHERE data->>'e' = 'p'
Store s_stored  data jsonb
└─ Project  CASE WHEN data -> 'e' IS NULL THEN '{}' ELSE jsonb_build_object('e', data -> 'e') END AS
     data
   └─ Selection  data ->> 'e' = 'p'
      └─ Decode JSON  data ->> 'e', data -> 'e'
""",
    "FROM KAFKA CONNECTION k (TOPIC 't') FORMAT JSON ENVELOPE UPSERT TRANSFORM BEFORE ENVELOPE USING "
    "(SELECT data->'r' AS r FROM s WHERE data->>'r' <> '') TRANSFORM USING (SELECT r->>'x' AS x FROM s)": """
Store s  x text
└─ Project  r ->> 'x' AS x
   └─ Envelope UPSERT
      └─ Before  data -> 'r'
         └─ Selection  data ->> 'r' <> ''
            └─ Decode JSON  data ->> 'r', data -> 'r'
""",
}


@pytest.fixture(scope="module")
def db() -> Database:
    made = tidegate.open("memory://")
    made.sql("CREATE CONNECTION k TO KAFKA (BROKER 'localhost:1', TIMEOUT MS 100)")
    return made


@pytest.mark.parametrize(("sql", "expected"), CASES.items(), ids=["files", "tables", "split", "envelope"])
def test_explain(db: Database, sql: str, expected: str) -> None:
    before = db.context.catalog.machine.fetch().options
    assert db.sql(f"EXPLAIN CREATE SOURCE s {sql}").text().strip() == expected.strip()
    assert db.context.catalog.machine.fetch().options == before


def test_what_is_refused_is_refused_here_too(db: Database) -> None:
    with pytest.raises(tidegate.PlanError, match="GROUP BY cannot be done row by row") as error:
        db.sql(
            "EXPLAIN CREATE SOURCE s FROM FILES '/x' FORMAT JSON TRANSFORM USING (SELECT 1 FROM s GROUP BY data)"
        )
    assert error.value.position is not None
    with pytest.raises(tidegate.UnsupportedError, match="EXPLAIN is for statements that read"):
        db.sql("EXPLAIN ANALYZE CREATE SOURCE s FROM FILES '/x' FORMAT JSON")
