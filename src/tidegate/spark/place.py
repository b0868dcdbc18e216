"""Where parts are for Spark's own reader: `file:` paths, or an object store if its Hadoop classes are on Spark's class path.

    uri_of(place)             file:/data/lake · s3a://bucket/lake
    readable(jvm, place)      whether Spark can open such files
    settings_of(place)        what Hadoop must know of the store, as options of a relation

A PySpark from PyPI has no classes for S3, Google or Azure (`hadoop-aws` and its like). Without them, and for a database in memory,
parts are read by tasks of ours (`scan.py`): every query works, but filters on such a DataFrame do not prune; those in `db.sql` do.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tidegate.spark.jvm import Jvm
from tidegate.store.place import Place

_CLASSES = {
    "s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "gs": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "abfs": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
    "abfss": "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
}
"""What Hadoop reads each scheme with."""
_S3 = {
    "endpoint": "fs.s3a.endpoint",
    "region": "fs.s3a.endpoint.region",
    "access_key_id": "fs.s3a.access.key",
    "secret_access_key": "fs.s3a.secret.key",
    "session_token": "fs.s3a.session.token",
}
"""obstore's options by Hadoop's names; what is left out both find in the environment."""


def uri_of(place: Place) -> str:
    """The root of the parts' names; what a URI must escape is escaped."""
    if place.kind == "files":
        return "file:" + quote(place.root)
    scheme, _, rest = place.root.partition("://")
    return f"{'s3a' if scheme == 's3' else scheme}://{quote(rest)}"


def readable(jvm: Jvm, place: Place) -> bool:
    """Whether Spark's own reader can open the parts."""
    if place.kind == "files":
        return True
    name = _CLASSES.get(uri_of(place).partition(":")[0])
    return place.kind == "objects" and name is not None and _there(jvm.jvm, name)


def _there(jvm: Any, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        jvm.org.apache.spark.util.Utils.classForName(name, True, False)
    except Py4JJavaError:
        return False
    return True


def settings_of(place: Place) -> dict[str, str]:
    """For S3 the options that the database was opened with; for others nothing: Hadoop finds them where it always does."""
    if place.kind != "objects" or not uri_of(place).startswith("s3a:"):
        return {}
    given = dict(place.options)
    found = {_S3[key]: value for key, value in given.items() if key in _S3}
    if "endpoint" in given:
        found["fs.s3a.path.style.access"] = "true"
        found["fs.s3a.connection.ssl.enabled"] = str(not given["endpoint"].startswith("http://")).lower()
    return found
