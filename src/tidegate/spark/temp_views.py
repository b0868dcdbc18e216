"""`db.attach(spark)`: collections as temporary views that are as new as each query that names them.

    attached = attach(lake, spark)
    spark.sql("SELECT … FROM orders")                                what is committed when the query is analysed
    spark.sql("SELECT … FROM tidegate('orders', 1719792000000)")     as of a time
    attached.refresh(); attached.detach()

**Which snapshot a query reads.** A DataFrame that is registered as a view would never change. So the views are texts,
`SELECT * FROM tidegate_…('orders')`, over a table function in Python that Spark's analyser calls whenever it finds the name. It
pins a snapshot and returns the plan of a relation (`relation.py`):

| | |
|---|---|
| each `spark.sql`, `spark.table` | reads what is committed at that moment |
| a DataFrame from it, and everything derived, whenever it runs | reads that same snapshot |
| one query that names a collection twice | reads one snapshot of it |
| a view of the user over these views | is as new as the query |
| `CACHE TABLE orders` | is used until something is appended; never if its rows end by themselves |
| a query of a Spark Connect client | is analysed again at each action, and reads what is new |

Two collections in one query are pinned separately, one just after the other.

Global temporary views (`global_temp.orders`) are the same for all sessions of the process, also of Spark Connect clients. A
table that is created later gets a view by `refresh()`, which `db.sql` does by itself when names change; `tidegate('name')` knows
it at once. Added columns are visible: the views have Spark's schema mode *EVOLUTION*.
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
from tidegate.context import Context
from tidegate.errors import BindError, StoreError, UnsupportedError
from tidegate.spark.data_source import register
from tidegate.spark.dataframes import table
from tidegate.spark.jvm import Jvm, java_interface, scala_object
from tidegate.spark.read.hadoop_paths import spark_can_read
from tidegate.spark.read.relation import SnapshotRelation, pin
from tidegate.spark.read.snapshot_index import SnapshotIndex
from tidegate.spark.session import sibling_session
from tidegate.spark.types import quoted, schema_of
from tidegate.storage.catalog import CatalogItem, shard_of, view_of
from tidegate.storage.shard import visible_columns

FUNCTION = "tidegate"
"""The table function for users; it reads the database that was attached last."""
_PLAIN = re.compile(r"[\w .-]*")
"""Names that have the same meaning in any quotes."""
MAX_QUERIES = 16
"""Queries whose snapshots are cached while they are analysed, and sessions beside those of users."""
_ANALYSERS = ThreadPoolExecutor(32, thread_name_prefix="tidegate relations")
"""Relations are created on other threads: a nested analysis would change thread-locals of the outer one."""


def attach(lake: Context, spark: SparkSession, *, global_views: bool = True) -> AttachedViews:
    """Creates the views and registers `format("tidegate")`."""
    register(spark)
    attached = AttachedViews(lake, spark, global_views=global_views)
    attached.refresh()
    return attached


class AttachedViews:
    """The temporary views of a database in a session."""

    def __init__(self, lake: Context, spark: SparkSession, *, global_views: bool) -> None:
        self.lake, self.spark, self.global_views = lake, spark, global_views
        self.names: tuple[str, ...] = ()
        self._jvm = Jvm.of(spark)
        self._function = CollectionFunction(lake, spark, self._jvm)
        self._internal = f"{FUNCTION}_{secrets.token_hex(6)}"
        self._register()

    @property
    def _state(self) -> Any:
        session: Any = self.spark._jsparkSession
        return session.sessionState()

    def _registries(self) -> list[Any]:
        """Returns the functions of this session, and those with which new sessions of the process start."""
        analysis = self._jvm.jvm.org.apache.spark.sql.catalyst.analysis
        return [
            self._state.tableFunctionRegistry(),
            scala_object(analysis, "TableFunctionRegistry").builtin(),
        ]

    def _register(self) -> None:
        for registry in self._registries():
            for name in (self._internal, FUNCTION):
                registry.createOrReplaceTempFunction(name, self._function, "scala_udf")

    @guarded
    def refresh(self) -> AttachedViews:
        """Creates a view for each present name, and drops those of names that are gone."""
        items = self.lake.catalog.readable()
        _refuse_equal_names(items, self.spark)
        self._drop(set(self.names) - set(items))
        prototypes = [self._prototype(False), *([self._prototype(True)] if self.global_views else [])]
        for name, item in items.items():
            for prototype in prototypes:
                self._create(name, item, *prototype)
        for _, globally in prototypes:
            self._drop_view("tidegate_prototype", globally)
        self.names = tuple(items)
        return self

    def follow(self) -> None:
        """Refreshes the views if names were added or removed."""
        if set(self.lake.catalog.readable()) != set(self.names):
            self.refresh()

    @guarded
    def detach(self) -> None:
        """Drops the views. DataFrames that were created by them still work."""
        self._drop(self.names)
        self.names = ()
        self._function.lake = None

    def _prototype(self, globally: bool) -> tuple[Any, bool]:
        """Returns Spark's description of a view; others are copies of it, which need no analysis."""
        self.spark.sql(
            f"CREATE OR REPLACE {'GLOBAL' if globally else ''} TEMP VIEW tidegate_prototype AS SELECT 1 AS x"
        )
        catalog = self._state.catalog()
        view = (catalog.getRawGlobalTempView if globally else catalog.getRawTempView)("tidegate_prototype")
        return view.get().tableMeta(), globally

    def _create(self, name: str, item: CatalogItem, prototype: Any, globally: bool) -> None:
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

    def _schema(self, item: CatalogItem) -> StructType:
        """Returns the columns that DESCRIBE shows; those of a view are unknown before it is read."""
        shard = shard_of(item)
        if shard is None:
            return StructType()
        state = self.lake.shard(shard).machine.fetch()
        return schema_of(visible_columns(state.schema, state.options))

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._drop_view(name, False)
            if self.global_views:
                self._drop_view(name, True)

    def _drop_view(self, name: str, globally: bool) -> None:
        catalog = self._state.catalog()
        with suppress(Py4JJavaError):  # the session may have ended
            (catalog.dropGlobalTempView if globally else catalog.dropTempView)(name)


class CollectionFunction:
    """The table function `tidegate('name')` and `tidegate('name', as_of)`, which Spark's analyser calls."""

    Java = java_interface("scala.Function1")

    def __init__(self, lake: Context, spark: SparkSession, jvm: Jvm) -> None:
        self.spark, self.jvm = spark, jvm
        self.lake: Context | None = lake
        """None after `detach`: Spark has no good way to remove a function."""
        self._queries: OrderedDict[
            int, tuple[Any, WeakValueDictionary[tuple[str, int | None], SnapshotIndex]]
        ]
        self._queries = OrderedDict()
        self._own: OrderedDict[str, SparkSession] = OrderedDict()
        """A session of ours beside each session that queries."""
        self._lock = Lock()

    def apply(self, arguments: Any) -> Any:
        """Returns the plan of a relation; the arguments must be constants."""
        values = [_constant(arguments.apply(i)) for i in range(arguments.length())]
        if not values or len(values) > 2 or not isinstance(values[0], str):
            raise UnsupportedError(
                f"{FUNCTION} takes the name of a collection and optionally a time",
                hint=f"SELECT * FROM {FUNCTION}('orders'), or {FUNCTION}('orders', 1719792000000)",
            )
        as_of = None if len(values) == 1 or values[1] is None else int(values[1])
        session, pins = self.jvm.active(), self._pins()
        return _ANALYSERS.submit(self._plan, values[0], as_of, session, pins).result()

    def toString(self) -> str:  # noqa: N802  # as Java calls it
        """Returns a text for Spark's messages."""
        return f"{FUNCTION}(name, as_of)"

    def _plan(
        self,
        name: str,
        as_of: int | None,
        session: Any,
        pins: WeakValueDictionary[tuple[str, int | None], SnapshotIndex],
    ) -> Any:
        spark = self._python(session)
        if self.lake is None:
            raise StoreError(
                "the database was closed or detached from Spark",
                hint="open it and call db.attach(spark) again",
            )
        lake = self.lake.current()
        if view_of(lake.item(name)) is not None:
            return _analysed_plan(table(lake, name, spark, as_of))
        with self._lock:
            pinned = pins.get((name, as_of))
            if pinned is None:
                pinned = pins[name, as_of] = pin(lake, name, as_of).index
        relation = SnapshotRelation(pinned)
        simple = relation.is_simple or not spark_can_read(self.jvm, lake.root.place)
        return _analysed_plan(relation.frame(spark if simple else self._beside(spark)))

    def _beside(self, spark: SparkSession) -> SparkSession:
        """Returns a session that can look up functions: the querying session's catalog is locked meanwhile."""
        number = str(spark._jsparkSession.sessionUUID())
        with self._lock:
            if number not in self._own:
                self._own[number] = sibling_session(spark)
            while len(self._own) > MAX_QUERIES:
                self._own.popitem(last=False)
            own = self._own[number]
        own.conf.set("spark.sql.caseSensitive", str(spark.conf.get("spark.sql.caseSensitive")))
        return own

    def _python(self, session: Any) -> SparkSession:
        """Returns the Python object of the querying session; a Spark Connect client has its own session."""
        mine: Any = self.spark._jsparkSession
        if session.sessionUUID() == mine.sessionUUID():
            return self.spark
        return SparkSession(self.spark.sparkContext, session)

    def _pins(self) -> WeakValueDictionary[tuple[str, int | None], SnapshotIndex]:
        """Returns the snapshots of the query that is analysed, which Spark identifies by its tracker."""
        current = self.jvm.trackers.get()
        if not current.isDefined():
            return WeakValueDictionary()
        tracker = current.get()
        number = int(self.jvm.identity(tracker))
        with self._lock:
            query = self._queries.get(number)
            if query is None or not query[0].equals(tracker):
                query = self._queries[number] = tracker, WeakValueDictionary()
            self._queries.move_to_end(number)
            while len(self._queries) > MAX_QUERIES:
                self._queries.popitem(last=False)
            return query[1]


def _analysed_plan(df: Any) -> Any:
    return df._jdf.queryExecution().analyzed()


def _constant(expression: Any) -> Any:
    """Returns the value of a constant expression; text is an object of Spark."""
    if not expression.foldable():
        raise UnsupportedError(f"{FUNCTION} takes constants", hint=f"{FUNCTION}('orders')")
    value = expression.eval(None)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode()
    return value if value is None or isinstance(value, int) else str(value.toString())


def _refuse_equal_names(names: Iterable[str], spark: SparkSession) -> None:
    """Refuses names that are equal to Spark."""
    if str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true":
        return
    by_folded: dict[str, str] = {}
    for name in names:
        other = by_folded.setdefault(name.lower(), name)
        if other != name:
            raise BindError(
                f"{quoted(other)} and {quoted(name)} are the same name to Spark",
                hint='spark.conf.set("spark.sql.caseSensitive", "true"), or db.table(name) for one of them',
            )


def _argument(name: str) -> str:
    """Returns a name as a Spark SQL constant with the same meaning in every session.

    In a string, the meaning of a backslash is a setting and `${x}` is replaced; in bytes neither happens.
    """
    return f"'{name}'" if _PLAIN.fullmatch(name) else f"X'{name.encode().hex()}'"
