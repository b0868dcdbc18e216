"""pg_catalog and information_schema, as psql 15, SQLAlchemy and tools like DBeaver ask for them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

import tidegate
from tests.server.pg_server import Serving, psql, serving
from tidegate.sql.parse import statement_texts
from tidegate.statements.postgres_catalog.dialect import to_duckdb
from tidegate.statements.postgres_catalog.rewrite import is_catalog, strip_schemas


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with tidegate.open("memory://") as db:
        db.sql(
            "CREATE TABLE orders (id int8 NOT NULL, name text DEFAULT 'x', price numeric(10,2), code varchar(20), tags text[], "
            "at timestamptz, doc jsonb, r row(a int8, b text))"
        )
        db.sql("INSERT INTO orders (id, name, price) VALUES (1, 'ham', 1.50), (2, 'eggs', 2.25)")
        db.sql('CREATE TABLE "Odd Name" (a int8)')
        db.sql("CREATE VIEW recent AS SELECT id, name, price * 2 AS twice FROM orders")
        with serving(db) as found:
            yield found


@pytest.fixture
def conn(at: Serving) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(at.conninfo(), autocommit=True) as found:
        yield found


# ---------------------------------------------------------------- psql


def shown(at: Serving, command: str) -> list[list[str]]:
    """The cells that psql prints."""
    done = psql(at, command, flags=("-A", "-t"))
    assert done.stderr == "", command
    return [line.split("|") for line in done.stdout.splitlines()]


def test_psql_lists(at: Serving) -> None:
    assert [row[:3] for row in shown(at, r"\d")] == [
        ["public", "Odd Name", "table"], ["public", "orders", "table"], ["public", "recent", "view"],
    ]  # fmt: skip
    assert [row[1] for row in shown(at, r"\dt")] == ["Odd Name", "orders"]
    assert [row[1] for row in shown(at, r"\dt or*")] == ["orders"]
    assert [row[1] for row in shown(at, r"\dv")] == ["recent"]
    assert [row[0] for row in shown(at, r"\dn")] == ["public"]
    assert [row[:3] for row in shown(at, r"\l")] == [["lake", "ann", "UTF8"]]
    assert shown(at, r"\du")[0][0] == "ann"
    for nothing in (r"\di", r"\ds", r"\dm"):
        assert psql(at, nothing).stderr == "Did not find any relations.\n"


def test_psql_describes_a_table(at: Serving) -> None:
    assert shown(at, r"\d orders") == [
        ["id", "bigint", "", "not null", ""],
        ["name", "text", "", "", "'x'"],
        ["price", "numeric(10,2)", "", "", ""],
        ["code", "character varying(20)", "", "", ""],
        ["tags", "text[]", "", "", ""],
        ["at", "timestamp with time zone", "", "", ""],
        ["doc", "jsonb", "", "", ""],
        ["r", "record", "", "", ""],
    ]
    assert shown(at, r"\d+ orders")[0][:4] == ["id", "bigint", "", "not null"]
    assert shown(at, r'\d "Odd Name"') == [["a", "bigint", "", "", ""]]
    assert shown(at, r"\d recent")[2][:2] == ["twice", "numeric(20,2)"]
    assert "SELECT id, name, price * 2 AS twice FROM orders" in psql(at, r"\d+ recent").stdout
    assert psql(at, r"\d nothing").stderr == 'Did not find any relation named "nothing".\n'


@pytest.mark.parametrize(
    "command",
    [r"\dt+", r"\dn+", r"\l+", r"\dp", r"\dx", r"\dT", r"\db", r"\dC", r"\dD", r"\do", r"\dO", r"\dy", r"\det", r"\des", r"\dew",
     r"\dF", r"\drds", r"\dRp", r"\dRs", r"\dd", r"\dA", r"\dL", r"\dP", r"\dg", r"\da", r"\sv recent"],
)  # fmt: skip
def test_psql_asks_for_everything(at: Serving, command: str) -> None:
    """What there is, what there is not, or an ordinary error; and the next question is answered."""
    done = psql(at, command, "SELECT 'next'")
    assert "next" in done.stdout
    assert "internal error" not in done.stderr


def test_psql_sees_what_is_new(at: Serving) -> None:
    at.db.sql("CREATE TABLE fresh (a int8)")
    assert shown(at, r"\d fresh") == [["a", "bigint", "", "", ""]]
    at.db.sql("ALTER TABLE fresh ADD COLUMN b text")
    assert shown(at, r"\d fresh") == [["a", "bigint", "", "", ""], ["b", "text", "", "", ""]]
    at.db.sql("DROP TABLE fresh")
    assert "Did not find" in psql(at, r"\d fresh").stderr


def test_a_view_of_what_was_dropped(at: Serving, conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """It has no columns to show, and stands in nobody's way."""
    at.db.sql("CREATE TABLE base (a int8)")
    at.db.sql("CREATE VIEW above AS SELECT a FROM base")
    at.db.sql("DROP TABLE base CASCADE")
    left = conn.execute("SELECT relname FROM pg_class WHERE relname IN ('base', 'above')").fetchall()
    assert ("base",) not in left
    assert len(shown(at, r"\d orders")) == 8
    at.db.sql("DROP VIEW IF EXISTS above")


# ---------------------------------------------------------------- SQLAlchemy


@pytest.fixture
def engine(at: Serving) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"postgresql+psycopg://ann@127.0.0.1:{at.port}/lake")
    yield made
    made.dispose()


@pytest.mark.filterwarnings("ignore:Did not recognize type 'record'")
def test_sqlalchemy_inspects(engine: sa.Engine) -> None:
    seen = sa.inspect(engine)
    assert sorted(seen.get_table_names()) == ["Odd Name", "orders"]
    assert seen.get_view_names() == ["recent"]
    assert sorted(seen.get_schema_names()) == ["information_schema", "public"]
    assert (seen.has_table("orders"), seen.has_table("recent"), seen.has_table("nothing")) == (
        True,
        True,
        False,
    )
    columns = {one["name"]: one for one in seen.get_columns("orders")}
    assert list(columns) == ["id", "name", "price", "code", "tags", "at", "doc", "r"]
    assert isinstance(columns["id"]["type"], sa.BIGINT)
    assert columns["id"]["nullable"] is False
    assert columns["name"]["default"] == "'x'"
    assert str(columns["price"]["type"]) == "NUMERIC(10, 2)"
    assert isinstance(columns["doc"]["type"], postgresql.JSONB)
    assert isinstance(columns["tags"]["type"], postgresql.ARRAY)
    assert str(columns["at"]["type"]) == "TIMESTAMP"
    assert seen.get_pk_constraint("orders")["constrained_columns"] == []
    for nothing in (
        seen.get_foreign_keys,
        seen.get_indexes,
        seen.get_unique_constraints,
        seen.get_check_constraints,
    ):
        assert nothing("orders") == []
    assert seen.get_view_definition("recent") == "SELECT id, name, price * 2 AS twice FROM orders"


@pytest.mark.filterwarnings("ignore:Did not recognize type 'record'")
def test_sqlalchemy_reflects_and_selects(engine: sa.Engine) -> None:
    for schema in (None, "public"):
        orders = sa.Table("orders", sa.MetaData(schema=schema), autoload_with=engine)
        with engine.connect() as conn:
            asked = (
                sa.select(orders.c.id, orders.c.name)
                .where(orders.c.price > 2, orders.c.name.like("e%"))
                .limit(5)
            )
            assert conn.execute(asked).all() == [(2, "eggs")]
            assert conn.execute(sa.select(sa.func.count()).select_from(orders)).scalar() == 2
            in_list = sa.select(orders.c.id).where(orders.c.id.in_([2, 7])).order_by(orders.c.id)
            assert conn.execute(in_list).scalars().all() == [2]
    everything = sa.MetaData()
    everything.reflect(engine, views=True)
    assert sorted(everything.tables) == ["Odd Name", "orders", "recent"]


def test_sqlalchemy_writes(engine: sa.Engine) -> None:
    made = sa.Table("made", sa.MetaData(), sa.Column("a", sa.BigInteger), sa.Column("b", sa.Text))
    with engine.begin() as conn:
        made.create(conn)
        conn.execute(made.insert(), [{"a": 1, "b": "x"}, {"a": 2, "b": None}])
        conn.execute(made.update().where(made.c.a == 2).values(b="y"))
        assert conn.execute(sa.select(made).order_by(made.c.a)).all() == [(1, "x"), (2, "y")]
        conn.execute(made.delete().where(made.c.a == 1))
        made.drop(conn)


# ---------------------------------------------------------------- tools


def test_information_schema(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    cur = conn.execute(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema NOT IN "
        "('pg_catalog', 'information_schema') ORDER BY table_name"
    )
    assert cur.fetchall() == [
        ("public", "Odd Name", "BASE TABLE"), ("public", "orders", "BASE TABLE"), ("public", "recent", "VIEW"),
    ]  # fmt: skip
    cur = conn.execute(
        "SELECT c.column_name, c.is_nullable, c.data_type, c.udt_name, c.numeric_precision, c.numeric_scale, "
        "c.character_maximum_length FROM information_schema.columns AS c WHERE c.table_name = %s ORDER BY c.ordinal_position",
        ("orders",),
    )
    assert cur.fetchall()[:5] == [
        ("id", "NO", "bigint", "int8", 64, 0, None),
        ("name", "YES", "text", "text", None, None, None),
        ("price", "YES", "numeric", "numeric", 10, 2, None),
        ("code", "YES", "character varying", "varchar", None, None, 20),
        ("tags", "YES", "ARRAY", "_text", None, None, None),
    ]
    for table in (
        "schemata",
        "views",
        "table_constraints",
        "key_column_usage",
        "routines",
        "triggers",
        "sequences",
    ):
        conn.execute(f"SELECT * FROM information_schema.{table}").fetchall()


def one(conn: psycopg.Connection[tuple[object, ...]], sql: str) -> object:
    """The first value of the first row."""
    row = conn.execute(sql).fetchone()
    return row and row[0]


def test_what_tools_ask_when_they_connect(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    assert str(one(conn, "SELECT version()")).startswith("PostgreSQL 15.0")
    assert one(conn, "SELECT current_database()") == "lake"
    assert one(conn, "SELECT current_schema()") == "public"
    assert one(conn, "SELECT current_user") == "ann"
    assert one(conn, "SELECT session_user") == "ann"
    assert one(conn, "SELECT pg_catalog.current_setting('server_version_num')") == "150000"
    assert one(conn, "SELECT pg_backend_pid()") == conn.info.backend_pid
    assert one(conn, "SELECT 'orders'::regclass::oid = to_regclass('public.orders')") is True
    assert one(conn, """SELECT 'public."Odd Name"'::regclass::oid""") is not None
    assert one(conn, "SELECT c.oid::regclass::text FROM pg_class c WHERE relname = 'orders'") == "orders"
    assert one(conn, "SELECT has_schema_privilege('public', 'USAGE')") is True
    assert conn.execute("SELECT version()").description[0].name == "version"  # type: ignore[index]  # there are columns
    assert (
        one(conn, "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname ~* 'PUB'") == "public"
    )
    assert one(conn, "SELECT setting FROM pg_settings WHERE name = 'client_encoding'") == "UTF8"


def test_what_tools_ask_of_tables(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    dbeaver = (
        "SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr "
        "FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 "
        "AND d.classoid = 'pg_class'::regclass WHERE c.relnamespace = %s AND c.relkind NOT IN ('i', 'I', 'c')"
    )
    assert len(conn.execute(dbeaver, (2200,)).fetchall()) == 3
    keys = (
        "SELECT a.attname, (information_schema._pg_expandarray(i.indkey)).n FROM pg_catalog.pg_attribute a "
        "JOIN pg_catalog.pg_index i ON a.attrelid = i.indrelid WHERE i.indisprimary"
    )
    assert conn.execute(keys).fetchall() == []
    assert one(conn, "SELECT typinput = 'pg_catalog.array_in'::regproc FROM pg_type WHERE oid = 1016") is True
    words = "SELECT word FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{select,from}'::text[])"
    keywords = {row[0] for row in conn.execute(words)}
    assert {"limit", "where"} <= keywords
    assert not {"select", "from"} & keywords
    assert one(conn, r"SELECT count(*) FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%'") == 2
    assert one(conn, "SELECT (current_schemas(false))[1]") == "public"
    types = conn.execute(
        "SELECT t.oid, t.typname FROM pg_catalog.pg_type t WHERE t.typname = ANY(%s)", (["int8", "_text"],)
    )
    assert sorted(types.fetchall()) == [(20, "int8"), (1009, "_text")]


def test_drivers_find_types(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    found = psycopg.types.TypeInfo.fetch(conn, "int8")
    assert found is not None
    assert (found.oid, found.array_oid) == (20, 1016)
    assert psycopg.types.TypeInfo.fetch(conn, "hstore") is None


def test_what_the_catalog_cannot_do_is_an_error(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    for sql in (
        "SELECT nonsense FROM pg_catalog.pg_class",
        "SELECT no_function(oid) FROM pg_catalog.pg_class",
        "SELECT * FROM pg_catalog.pg_class, orders",
        "SELECT FROM WHERE pg_catalog.pg_class",
        "SELECT 'nothing'::regclass::nonsense",
    ):
        with pytest.raises(psycopg.Error) as caught:
            conn.execute(sql)
        assert caught.value.sqlstate not in (None, "XX000")
    assert conn.execute("SELECT 1").fetchone() == (1,)


# ---------------------------------------------------------------- which texts are about the catalog


CATALOG = [
    "SELECT relname FROM pg_catalog.pg_class",
    "SELECT relname FROM pg_class",
    "select * from a.b, information_schema.tables",
    "SELECT pg_backend_pid()",
    "SELECT 'x'::regclass",
    "WITH x AS (SELECT * FROM pg_type) SELECT * FROM x",
    "SELECT pg_catalog.pg_backend_pid()",
    "SELECT txid_current(), extract(year FROM now())",
]
NOT_CATALOG = [
    "SELECT * FROM orders",
    "SELECT 'pg_catalog.pg_class' FROM orders",
    "SELECT 1 -- FROM pg_catalog.pg_class",
    "SELECT version FROM orders",
    'SELECT "pg_class" FROM orders',
    "SELECT id::pg_catalog.int4 FROM orders",
    "SELECT current_user_name FROM orders",
    "SELECT version(), current_user, quote_ident(x)",
    "SELECT * FROM mine.pg_class",
    "SELECT * FROM pg_mine",
    "INSERT INTO orders SELECT 1",
    "SELECT pg_catalog.lower(name) FROM orders",
]


@pytest.mark.parametrize("sql", CATALOG)
def test_these_are(sql: str) -> None:
    assert is_catalog(statement_texts(sql)[0], lambda name: False)


@pytest.mark.parametrize("sql", NOT_CATALOG)
def test_these_are_not(sql: str) -> None:
    assert not is_catalog(statement_texts(sql)[0], lambda name: False)


def test_a_collection_is_never_shadowed(at: Serving, conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Whoever has a collection of that name reads theirs; with pg_catalog before it, the catalog's."""
    at.db.sql("CREATE TABLE pg_tables (mine int8)")
    at.db.sql("INSERT INTO pg_tables VALUES (7)")
    try:
        assert conn.execute("SELECT * FROM pg_tables").fetchall() == [(7,)]
        assert conn.execute("SELECT mine FROM public.pg_tables").fetchall() == [(7,)]
        names = conn.execute("SELECT tablename FROM pg_catalog.pg_tables ORDER BY 1").fetchall()
        assert ("pg_tables",) in names
    finally:
        at.db.sql("DROP TABLE pg_tables")


def test_schemas_that_clients_write() -> None:
    piece = strip_schemas(
        statement_texts('SELECT public.orders.id, public.x FROM "public".orders JOIN public.b ON true')[0]
    )
    assert " ".join(piece.text.split()) == "SELECT orders.id, public.x FROM orders JOIN b ON true"
    assert len(piece.text) == len(
        'SELECT public.orders.id, public.x FROM "public".orders JOIN public.b ON true'
    )


def test_in_other_words() -> None:
    for given, wanted in {
        "SELECT a OPERATOR(pg_catalog.~) '^(x)$' COLLATE pg_catalog.default": "SELECT a ~ '(?s).*(?:^(x)$).*'",
        "SELECT a !~* 'it''s'": "SELECT a !~ '(?si).*(?:it''s).*'",
        "SELECT CAST('t' AS REGCLASS)": "SELECT to_regclass('t')",
        "SELECT c.oid::pg_catalog.regclass::pg_catalog.text": "SELECT regclass_name(c.oid) :: text",
        "SELECT x::pg_catalog.oid, current_user": "SELECT x :: bigint , tg_current_user()",
        "SELECT 'FROM pg_catalog.x ::regclass'": "SELECT 'FROM pg_catalog.x ::regclass'",
    }.items():
        assert " ".join(to_duckdb(given).split()) == wanted
