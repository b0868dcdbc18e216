"""What CREATE SOURCE refuses: each with what is in the way, where it stands, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidegate
from tidegate.database import Database

FILES = "CREATE SOURCE s FROM FILES '/nowhere/*.json' FORMAT JSON "
KAFKA = "CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't') "


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with tidegate.open("memory://") as made:
        made.sql("CREATE TABLE t (a int4); CREATE VIEW v AS SELECT 1")
        made.sql("CREATE CONNECTION k TO KAFKA (BROKER 'localhost:1', TIMEOUT MS 100)")
        made.sql("CREATE SOURCE taken FROM GENERATOR orders (ROWS 1)")
        yield made


def refused(db: Database, sql: str) -> tidegate.TidegateError:
    before = db.context.catalog.machine.fetch().options
    with pytest.raises(tidegate.TidegateError) as error:
        db.sql(sql)
    assert db.context.catalog.machine.fetch().options == before, "it left something behind"
    return error.value


TRANSFORMS = [
    # what stands in the way, the words that are marked, what the error says
    ("SELECT s.data FROM s JOIN t ON true", "JOIN", "a JOIN cannot be done row by row"),
    ("SELECT s.data FROM s, t", ",", r"a CROSS JOIN \(a comma in FROM\) cannot be done row by row"),
    ("SELECT count(*) FROM s", "count", "the aggregate count cannot"),
    ("SELECT data FROM s GROUP BY data", "GROUP", "GROUP BY cannot"),
    ("SELECT DISTINCT data FROM s", "DISTINCT", "DISTINCT cannot"),
    ("SELECT data FROM s WHERE data IN (SELECT '1'::jsonb)", "IN", "a subquery"),
    ("SELECT data FROM s WHERE EXISTS (SELECT 1 FROM t)", "EXISTS", "subquery|EXISTS"),
    ("SELECT data FROM s ORDER BY data", "data", "ORDER BY cannot"),
    ("SELECT data FROM s LIMIT 5", "5", "LIMIT cannot"),
    ("SELECT data FROM s OFFSET 5", "5", "OFFSET cannot"),
    ("SELECT row_number() OVER () AS n FROM s", "row_number", "window function"),
    ("SELECT data FROM s UNION ALL SELECT data FROM s", "UNION", "UNION ALL cannot"),
    ("SELECT * FROM generate_series(1, 2) AS g", "generate_series", "a table function"),
    (
        "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 2 FROM r) SELECT * FROM r",
        "RECURSIVE",
        "WITH RECURSIVE",
    ),
    ("SELECT data FROM t", "t", 'a transform reads its source, "s", and cannot read "t"'),
    ("SELECT 1 AS one", "SELECT", "a transform reads its source"),
    ("SELECT random() AS r FROM s", "random", r"random\(\) gives another value each time"),
    ("SELECT gen_random_uuid() AS r FROM s", "gen_random_uuid", "gives another value each time"),
    ("SELECT now() AS n, data FROM s", "now", r"now\(\) has no fixed value"),
    ("SELECT ARRAY[data->>'a']::text AS a FROM s", "::", "may change its results in a later version"),
    ("SELECT mz_now() AS n FROM s", "mz_now", r"mz_now\(\) cannot be maintained in the column"),
    ("SELECT data FROM s WHERE data ? 'x' OR mz_now() < 5", "mz_now", r"mz_now\(\) cannot be maintained in"),
    ("SELECT data FROM s WHERE mz_now() <> 5", "mz_now", r"mz_now\(\) cannot be maintained in"),
    ("SELECT data FROM s WHERE NOT (mz_now() < 5)", "mz_now", None),
    ("SELECT data, data FROM s", "SELECT", 'column "data" is there twice(.|\n)*AS'),
    ("SELECT dada FROM s", "dada", r'column "dada" does not exist(.|\n)*did you mean data\?'),
    ("SELECT data AS _time FROM s", "SELECT", '"_time" cannot be a column'),
]


@pytest.mark.parametrize(
    ("query", "marked", "message"), TRANSFORMS, ids=[query for query, _, _ in TRANSFORMS]
)
def test_transforms(db: Database, query: str, marked: str, message: str | None) -> None:
    sql = FILES + f"TRANSFORM USING ({query})"
    if message is None:
        db.sql(sql)  # NOT (a < b) is b <= a, which sets a bound
        db.sql("DROP SOURCE s")
        return
    error = refused(db, sql)
    with pytest.raises(tidegate.TidegateError, match=message):
        raise error
    assert error.position is not None
    assert error.position.sql[error.position.start :].startswith(marked)
    if "row by row" in error.message:
        assert "WITH (SPLIT)" in str(error)


RETRACTING = {
    "ENVELOPE DEBEZIUM": "FORMAT JSON ENVELOPE DEBEZIUM ",
    "ENVELOPE UPSERT": "FORMAT JSON ENVELOPE UPSERT ",
}


@pytest.mark.parametrize("envelope", RETRACTING.values(), ids=RETRACTING)
def test_floating_point_where_rows_are_taken_away(db: Database, envelope: str) -> None:
    error = refused(db, KAFKA + envelope + "TRANSFORM USING (SELECT (data->>'a')::float8 * 2 AS a FROM s)")
    assert "*(float8, float8) -> float8 is not exact" in str(error)
    assert "keep its arguments as columns" in str(error)
    assert error.position is not None
    assert error.position.sql[error.position.start] == "*"
    db.sql(KAFKA + envelope + "TRANSFORM USING (SELECT (data->>'a')::numeric * 2 AS a FROM s)")
    db.sql("DROP SOURCE s")
    db.sql(KAFKA + "FORMAT JSON TRANSFORM USING (SELECT (data->>'a')::float8 * 2 AS a FROM s)")
    db.sql("DROP SOURCE s")


STATEMENTS = [
    ("CREATE SOURCE t FROM GENERATOR orders (ROWS 1)", "t", 'table "t" already exists'),
    ("CREATE SOURCE v FROM GENERATOR orders (ROWS 1)", "v", 'view "v" already exists'),
    (
        "CREATE SOURCE taken FROM GENERATOR orders (ROWS 1)",
        "taken",
        r'source "taken" already exists(.|\n)*IF NOT EXISTS',
    ),
    (
        "CREATE SOURCE taken_errors FROM GENERATOR orders (ROWS 1)",
        "taken_errors",
        'subsource "taken_errors" already exists',
    ),
    (
        "CREATE SOURCE s FROM GENERATOR auction (ROWS 1) FOR TABLES (users AS t)",
        "s",
        'table "t" already exists',
    ),
    (
        "CREATE SOURCE s FROM GENERATOR auction (ROWS 1) FOR TABLES (users AS a, bids AS a)",
        "s",
        'two collections "a"',
    ),
    (
        "CREATE SOURCE s FROM GENERATOR auction (ROWS 1) FOR TABLES (bid)",
        "bid",
        r'no table "bid" upstream(.|\n)*did you mean bids',
    ),
    (
        "CREATE SOURCE s FROM GENERATOR auction (ROWS 1)",
        "s",
        r"it has the tables users, auctions, bids(.|\n)*FOR ALL TABLES",
    ),
    ("CREATE SOURCE s FROM GENERATOR orders (ROWS 1) FORMAT JSON", "JSON", "GENERATOR knows its columns"),
    ("CREATE SOURCE s FROM GENERATOR orders (ROWS 1, COLOUR 'red')", "COLOUR", "COLOUR"),
    ("CREATE SOURCE s FROM GENERATOR orders (ROWS)", "ROWS", "ROWS needs a value: a whole number"),
    ("CREATE SOURCE s FROM GENERATOR orders (ROWS TRUE)", "ROWS", "ROWS is a whole number .*, not TRUE"),
    (FILES + "WITH (MAX ERRORS)", "MAX ERRORS", "MAX ERRORS needs a value: a whole number of at least 0"),
    (FILES + "WITH (RETENTION)", "RETENTION", "RETENTION needs a value: a length of time"),
    ("CREATE SOURCE s FROM FILES '/x' FORMAT CSV (DELIMITER)", "DELIMITER", "DELIMITER needs a value: one"),
    ("CREATE SOURCE s FROM FILES '/x' FORMAT AVRO (SCHEMA)", "SCHEMA", "SCHEMA needs a value: a text"),
    ("CREATE SOURCE s FROM FILES '/x' FORMAT AVRO (REGISTRY)", "REGISTRY", "REGISTRY needs a value"),
    ("CREATE CONNECTION c TO KAFKA (BROKER)", "BROKER", r"BROKER needs a value: .*(.|\n)*BROKER 'host:9092'"),
    (
        "CREATE CONNECTION c TO KAFKA (BROKER (5, 'a''b', FALSE))",
        "BROKER",
        r"not \(5, 'a''b', FALSE\)",
    ),
    ("CREATE CONNECTION c TO POSTGRES (HOST 'h', DATABASE)", "DATABASE", "DATABASE needs a value"),
    ("CREATE SOURCE s FROM KAFCA 'x' FORMAT JSON", "KAFCA", r"no upstream KAFCA(.|\n)*there are FILES"),
    (
        "CREATE SOURCE s FROM SQL SERVER CONNECTION k (A 'b') FOR ALL TABLES",
        "SQL SERVER",
        r"no upstream SQL SERVER\n(.|\n)* \^{10}\n(.|\n)*there are FILES, GENERATOR, KAFKA, POSTGRES",
    ),
    ("CREATE SOURCE s FROM SQL SERVER", "SQL", r"no upstream SQL(.|\n)*there are FILES"),
    (
        "CREATE CONNECTION c TO SQL SERVER (HOST 'a')",
        "SQL SERVER",
        r"to SQL SERVER are not(.|\n)*there are KAFKA",
    ),
    ("CREATE SOURCE s FROM GENERATOR weather (ROWS 1)", "s", "weather"),
    ("CREATE SOURCE s FROM FILES '/nowhere/*.json'", "s", "FILES needs a FORMAT"),
    (
        "CREATE SOURCE s FROM FILES '/nowhere/*.csv' FORMAT CSV WITH HEADER",
        "CSV",
        r"no file(.|\n)*WITH HEADER \(a, b\)",
    ),
    ("CREATE SOURCE s FROM FILES '/nowhere/*.pq' FORMAT PARQUET", "PARQUET", "no file"),
    (FILES + "FOR ALL TABLES", "s", "FILES has no tables"),
    (
        FILES + "FOR TABLES (a) TRANSFORM USING (SELECT data FROM s)",
        "SELECT",
        "each of several tables has a transform of its own",
    ),
    (FILES + "INCLUDE OFFSET", "OFFSET", "files have no OFFSET"),
    (FILES + "INCLUDE FILE AS data", "FILE AS", r'there are two columns "data"(.|\n)*INCLUDE FILE AS'),
    (FILES + "INCLUDE LINE, LINE", "LINE", 'there are two columns "line"'),
    (FILES + "CLUSTER BY (colour)", "colour", r'column "colour" does not exist(.|\n)*there are: data'),
    (FILES + "KEEP STATISTICS (colour.x)", "colour", 'column "colour" does not exist'),
    (FILES + "WITH (COLOUR 'red')", "COLOUR", "FILES has no option COLOUR"),
    (
        FILES + "WITH (MAX ERRORS 'many')",
        "MAX ERRORS",
        "MAX ERRORS is a whole number of at least 0, not 'many'",
    ),
    (FILES + "WITH (BATCH ROWS 0)", "BATCH ROWS", "BATCH ROWS is a whole number of at least 1, not 0"),
    (FILES + "WITH (RETENTION 'soon')", "RETENTION", "'soon' is not a length of time"),
    (FILES + "WITH (SPLIT 3)", "SPLIT", "SPLIT is TRUE or FALSE"),
    (FILES + "ENVELOPE UPSERT", "s", "ENVELOPE UPSERT is not for records of FILES"),
    (
        FILES + "TRANSFORM BEFORE ENVELOPE USING (SELECT data FROM s)",
        "SELECT",
        "TRANSFORM BEFORE ENVELOPE needs an envelope",
    ),
    (
        "CREATE SOURCE s FROM FILES '/x' FORMAT TEXT ENVELOPE DEBEZIUM",
        "TEXT",
        "needs FORMAT JSON or FORMAT AVRO",
    ),
    (
        "CREATE SOURCE s FROM FILES '/x' KEY FORMAT TEXT VALUE FORMAT JSON",
        "s",
        "records of FILES have no keys",
    ),
    ("CREATE SOURCE s FROM GENERATOR orders (ROWS 1) ENVELOPE DEBEZIUM", "s", "not for records of GENERATOR"),
    (
        "CREATE SOURCE s FROM KAFKA CONNECTION kk (TOPIC 't') FORMAT JSON",
        "kk",
        r'no connection "kk"(.|\n)*did you mean k\?',
    ),
    ("CREATE SOURCE s FROM KAFKA CONNECTION t (TOPIC 't') FORMAT JSON", "t (", '"t" is not a connection'),
    (
        "CREATE SOURCE s FROM POSTGRES CONNECTION k (PUBLICATION 'p') FOR ALL TABLES",
        "s",
        "is to KAFKA, not to POSTGRES",
    ),
    ("CREATE SOURCE s FROM KAFKA CONNECTION k FORMAT JSON", "s", "FROM KAFKA needs TOPIC"),
    (KAFKA + "FORMAT AVRO", "AVRO", r"schema is not known(.|\n)*USING SCHEMA"),
    (
        KAFKA + "FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION k",
        "AVRO",
        "is to KAFKA, not to a schema registry",
    ),
    (
        KAFKA + "FORMAT JSON INCLUDE OFFSET ENVELOPE DEBEZIUM",
        "OFFSET",
        "a record that takes a row away has another OFFSET",
    ),
    (KAFKA + "FORMAT JSON INCLUDE INGESTION TIMESTAMP ENVELOPE DEBEZIUM", "INGESTION", "must be the same"),
    (
        KAFKA
        + "FORMAT JSON ENVELOPE UPSERT TRANSFORM BEFORE ENVELOPE USING (SELECT data FROM s WHERE mz_now() < 5)",
        "SELECT",
        "mz_now",
    ),
]


@pytest.mark.parametrize(
    ("sql", "marked", "message"), STATEMENTS, ids=[sql[14:80] for sql, _, _ in STATEMENTS]
)
def test_statements(db: Database, sql: str, marked: str, message: str) -> None:
    error = refused(db, sql)
    with pytest.raises(tidegate.TidegateError, match=message):
        raise error
    assert error.position is not None
    assert error.position.sql[error.position.start :].startswith(marked)


def test_if_not_exists(db: Database) -> None:
    assert "left as it is" in db.sql("CREATE SOURCE IF NOT EXISTS t FROM GENERATOR weather").text()


def test_the_message_as_a_user_sees_it(db: Database) -> None:
    error = refused(db, FILES + "\nTRANSFORM USING (\n  SELECT kind, count(*) FROM s GROUP BY kind)")
    assert str(error) == (
        "GROUP BY cannot be done row by row\n"
        "line 3, column 32:\n"
        "      SELECT kind, count(*) FROM s GROUP BY kind)\n"
        "                                   ^^^^^\n"
        "hint: WITH (SPLIT) stores rows, and makes of the rest a view over them"
    )
