"""Every collection and view as a temporary view of Spark that is as new as the query that names it.

    attached = attach(lake, spark)
    spark.sql("SELECT … FROM orders")                      what is committed when this is planned
    spark.sql("SELECT … FROM tidegate('orders', 1719792000000)")     as of a time
    attached.refresh(); attached.detach()

**Which snapshot a query reads.** A DataFrame that was registered as a view would stay what it was. So the views are texts,
`SELECT * FROM tidegate_…('orders')`, over a table function, which is a function in Python that Spark's analyser calls whenever it
meets the name. It pins a snapshot and gives the plan of a relation (`relation.py`):

| | |
|---|---|
| each `spark.sql`, `spark.table` | reads what is committed by then |
| a DataFrame made by it, what is derived of it, run now or later | reads that same snapshot |
| one query that names a collection twice | reads one snapshot of it |
| a view of the user's over these views | as new as the query |
| `CACHE TABLE orders` | is used until something is appended; not at all if rows of it end by themselves |
| a query of a Spark Connect client | is planned anew at each action, and so reads what is new |

Two collections in one query are each pinned on their own, one just after the other.

Global temporary views (`global_temp.orders`) are the same for all sessions of the process: those of Spark Connect's clients too.
A table that is made later has a view after `refresh()`, which `db.sql` does by itself when names change; `tidegate('name')` knows
it at once. Columns that are added are seen: the views are of the kind that Spark calls *schema evolution*.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tidegate.boundary import guarded
from tidegate.errors import BindError, StoreError, UnsupportedError
from tidegate.session.lake import Lake
from tidegate.shard.catalog import Item, shard_of, view_of
from tidegate.shard.validity import shown
from tidegate.shard.writer import schema_of as newest_schema
from tidegate.spark.columns import quoted, schema_of
from tidegate.spark.jvm import Jvm, single
from tidegate.spark.pinned import Pinned
from tidegate.spark.place import readable
from tidegate.spark.relation import Relation, pin, table
from tidegate.spark.session import beside
from tidegate.spark.source import register

FUNCTION = "tidegate"
"""The table function for users; that of the database that was attached last."""
_PLAIN = re.compile(r"[\w .-]*")
"""Names that mean the same in any quotes."""
QUERIES = 16
"""Queries whose snapshots are remembered while they are analysed."""
_DEEP = ThreadPoolExecutor(32, thread_name_prefix="tidegate relations")
"""Relations are made on other threads: analysing inside of an analysis would change variables of its thread."""


def attach(lake: Lake, spark: SparkSession, *, global_views: bool = True) -> Attached:
    """Makes the views, and format("tidegate") known; see the module's docstring."""
    register(spark)
    attached = Attached(lake, spark, global_views=global_views)
    attached.refresh()
    return attached


class Attached:
    """The views of a database in a session."""

    def __init__(self, lake: Lake, spark: SparkSession, *, global_views: bool) -> None:
        self.lake, self.spark, self.global_views = lake, spark, global_views
        self.names: tuple[str, ...] = ()
        self._jvm = Jvm.of(spark)
        self._function = TableFunction(lake, spark, self._jvm)
        self._internal = f"{FUNCTION}_{secrets.token_hex(6)}"
        self._register()

    @property
    def _state(self) -> Any:
        session: Any = self.spark._jsparkSession
        return session.sessionState()

    def _registries(self) -> list[Any]:
        """This session's functions, and those that other sessions of the process will begin with."""
        analysis = self._jvm.jvm.org.apache.spark.sql.catalyst.analysis
        return [self._state.tableFunctionRegistry(), single(analysis, "TableFunctionRegistry").builtin()]

    def _register(self) -> None:
        for registry in self._registries():
            for name in (self._internal, FUNCTION):
                registry.createOrReplaceTempFunction(name, self._function, "scala_udf")

    @guarded
    def refresh(self) -> Attached:
        """A view for each name that there is now, and none for those that are gone."""
        items = self.lake.catalog.readable()
        _distinct(items, self.spark)
        self._drop(set(self.names) - set(items))
        prototypes = [self._prototype(False), *([self._prototype(True)] if self.global_views else [])]
        for name, item in items.items():
            for prototype in prototypes:
                self._create(name, item, *prototype)
        for _, globally in prototypes:
            self._forget("tidegate_prototype", globally)
        self.names = tuple(items)
        return self

    def follow(self) -> None:
        """The same, if names have come or gone."""
        if set(self.lake.catalog.readable()) != set(self.names):
            self.refresh()

    @guarded
    def detach(self) -> None:
        """Drops the views. What was read by them can be read on."""
        self._drop(self.names)
        self.names = ()
        self._function.lake = None

    def _prototype(self, globally: bool) -> tuple[Any, bool]:
        """How this version of Spark describes a view over a function; others are made of it, without analysing anything."""
        self.spark.sql(
            f"CREATE OR REPLACE {'GLOBAL' if globally else ''} TEMP VIEW tidegate_prototype AS SELECT 1 AS x"
        )
        catalog = self._state.catalog()
        found = (catalog.getRawGlobalTempView if globally else catalog.getRawTempView)("tidegate_prototype")
        return found.get().tableMeta(), globally

    def _create(self, name: str, item: Item, prototype: Any, globally: bool) -> None:
        text = f"SELECT * FROM {self._internal}({_argument(name)})"
        functions = f'["{self._internal}"]'
        properties = prototype.properties().updated("view.schemaMode", "EVOLUTION")
        properties = properties.updated("view.referredTempFunctionsNames", functions)
        identifier = prototype.identifier()
        changed = {
            "identifier": identifier.copy(name, identifier.database(), identifier.catalog()),
            "properties": properties,
            "schema": self._jvm.from_json(self._schema(item).json()),
            "viewText": self._jvm.some(text),
            "viewOriginalText": self._jvm.some(text),
        }
        fields = [prototype.productElementName(i) for i in range(prototype.productArity())]
        values = [changed.get(field, prototype.productElement(i)) for i, field in enumerate(fields)]
        meta = prototype.copy(*values)
        relation = self._jvm.jvm.org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation(
            meta, self._jvm.none
        )
        catalog = self._state.catalog()
        (catalog.createGlobalTempView if globally else catalog.createTempView)(name, relation, True)

    def _schema(self, item: Item) -> StructType:
        """What DESCRIBE says; of a view it is not known before it is read."""
        shard = shard_of(item)
        if shard is None:
            return StructType()
        state = self.lake.shard(shard).machine.fetch()
        return schema_of(shown(newest_schema(state), state.options))

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._forget(name, False)
            if self.global_views:
                self._forget(name, True)

    def _forget(self, name: str, globally: bool) -> None:
        catalog = self._state.catalog()
        with suppress(Py4JJavaError):  # the session may be over
            (catalog.dropGlobalTempView if globally else catalog.dropTempView)(name)


class TableFunction:
    """What Spark's analyser calls for `tidegate('name')` and `tidegate('name', as_of)`."""

    class Java:
        """What py4j must know."""

        implements = ("scala.Function1",)

    def __init__(self, lake: Lake, spark: SparkSession, jvm: Jvm) -> None:
        self.spark, self.jvm = spark, jvm
        self.lake: Lake | None = lake
        """None: detached. Spark has no good way to forget a function."""
        self._queries: OrderedDict[int, tuple[Any, WeakValueDictionary[tuple[str, int | None], Pinned]]]
        self._queries = OrderedDict()
        self._own: OrderedDict[str, SparkSession] = OrderedDict()
        """For each session that asks, one beside it."""
        self._lock = Lock()

    def apply(self, arguments: Any) -> Any:
        """The plan of a relation, for expressions that must be constants."""
        given = [_constant(arguments.apply(i)) for i in range(arguments.length())]
        if not given or len(given) > 2 or not isinstance(given[0], str):
            raise UnsupportedError(
                f"{FUNCTION} takes the name of a collection, and perhaps a time",
                hint=f"SELECT * FROM {FUNCTION}('orders'), or {FUNCTION}('orders', 1719792000000)",
            )
        as_of = None if len(given) == 1 or given[1] is None else int(given[1])
        session, pins = self.jvm.active(), self._pins()
        return _DEEP.submit(self._plan, given[0], as_of, session, pins).result()

    def toString(self) -> str:  # noqa: N802  # as Java calls it
        """For Spark's messages."""
        return f"{FUNCTION}(name, as_of)"

    def _plan(
        self,
        name: str,
        as_of: int | None,
        session: Any,
        pins: WeakValueDictionary[tuple[str, int | None], Pinned],
    ) -> Any:
        spark, lake = self._python(session), self.lake
        if lake is None:
            raise StoreError(
                "the database was closed, or detached from Spark", hint="open it, and db.attach(spark) again"
            )
        if view_of(lake.item(name)) is not None:
            return _analysed(table(lake, name, spark, as_of))
        with self._lock:
            pinned = pins.get((name, as_of))
            if pinned is None:
                pinned = pins[name, as_of] = pin(lake, name, as_of).pinned
        relation = Relation(pinned)
        simple = relation.is_simple or not readable(self.jvm, lake.root.place)
        return _analysed(relation.frame(spark if simple else self._beside(spark)))

    def _beside(self, spark: SparkSession) -> SparkSession:
        """A session in which functions can be looked up: the one that asks has its catalog locked until it has its answer."""
        number = str(spark._jsparkSession.sessionUUID())
        with self._lock:
            if number not in self._own:
                self._own[number] = beside(spark)
            while len(self._own) > QUERIES:
                self._own.popitem(last=False)
            own = self._own[number]
        own.conf.set("spark.sql.caseSensitive", str(spark.conf.get("spark.sql.caseSensitive")))
        return own

    def _python(self, session: Any) -> SparkSession:
        """The Python side of the session that asks: a client of Spark Connect has one of its own."""
        mine: Any = self.spark._jsparkSession
        if session.sessionUUID() == mine.sessionUUID():
            return self.spark
        return SparkSession(self.spark.sparkContext, session)

    def _pins(self) -> WeakValueDictionary[tuple[str, int | None], Pinned]:
        """The snapshots of the query that is being analysed: Spark has an object for each query that times its phases."""
        found = self.jvm.trackers.get()
        if not found.isDefined():
            return WeakValueDictionary()
        tracker = found.get()
        number = int(self.jvm.identity(tracker))
        with self._lock:
            known = self._queries.get(number)
            if known is None or not known[0].equals(tracker):
                known = self._queries[number] = tracker, WeakValueDictionary()
            self._queries.move_to_end(number)
            while len(self._queries) > QUERIES:
                self._queries.popitem(last=False)
            return known[1]


def _analysed(df: Any) -> Any:
    return df._jdf.queryExecution().analyzed()


def _constant(expression: Any) -> Any:
    """The value of a constant expression; text comes as an object of Spark's."""
    if not expression.foldable():
        raise UnsupportedError(f"{FUNCTION} takes constants", hint=f"{FUNCTION}('orders')")
    value = expression.eval(None)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode()
    return value if value is None or isinstance(value, int) else str(value.toString())


def _distinct(names: Iterable[str], spark: SparkSession) -> None:
    """Refuses names that Spark takes for one."""
    if str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true":
        return
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise BindError(
                f"{quoted(other)} and {quoted(name)} are one name to Spark",
                hint='spark.conf.set("spark.sql.caseSensitive", "true"), or db.table(name) for one of them',
            )


def _argument(name: str) -> str:
    """A name as a constant of Spark SQL that means it in every session.

    How a backslash is read in a text is a setting, and `${x}` is replaced in it; not in bytes.
    """
    return f"'{name}'" if _PLAIN.fullmatch(name) else f"X'{name.encode().hex()}'"
