"""Where parts are for Spark's own reader: `file:` paths, or an object store if its Hadoop classes are on Spark's class path.

    uri_of(place)             file:/data/lake · s3a://bucket/lake, as users write it
    scan_uri(place)           the same, or s3a-5f0c2e91d3a7b604://bucket/lake where the URL of the database has settings of its own
    readable(jvm, place)      whether Spark can open such files
    settings_of(place)        what Hadoop must know of the store, as options of a relation

A PySpark from PyPI has no classes for S3, Google or Azure (`hadoop-aws` and its like). Without them, and for a database in memory,
parts are read by tasks of ours (`scan.py`): every query works, but filters on such a DataFrame do not prune; those in `db.sql` do.

**A scheme for each set of settings.** Hadoop keeps one FileSystem for each scheme, bucket and user in a JVM, made with the settings
of whoever asks first. Under `s3a://lake` a second database in a bucket of the same name at another endpoint would be read through
the first one's, and a plain `spark.read.parquet("s3a://lake/…")` would find the credentials of a database that somebody else has
opened. So the endpoint and keys of a URL belong to a scheme of their own, which only the relations of that database know. There is
one FileSystem in each JVM for each set of settings: no more than there would be anyway. Where the URL says nothing, it is `s3a:`
as the session is set up.

Settings are given for the bucket (`fs.s3a.bucket.lake.endpoint`), as those beat what the session says for all buckets, and ours
beat what the session says for this one.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any
from urllib.parse import quote

from tidegate.spark.jvm import Jvm
from tidegate.store.place import Place

_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_CLASSES = {
    "s3a": _S3A,
    "gs": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "abfs": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
    "abfss": "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
}
"""What Hadoop reads each scheme with."""
_S3 = {
    "endpoint": "endpoint",
    "region": "endpoint.region",
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
}
"""obstore's options by Hadoop's names; what is left out both find in the environment."""
_ALIASES = {
    "endpoint_url": "endpoint",
    "endpoint_url_s3": "endpoint",
    "default_region": "region",
    "token": "session_token",
}
"""Other names of obstore's options, without `aws_` before them."""
_STYLE, _UNSIGNED = "virtual_hosted_style_request", "skip_signature"
_OF_WRITERS = frozenset(
    {"allow_http", "timeout", "connect_timeout", "conditional_put", "copy_if_not_exists", "checksum_algorithm",
     "unsigned_payload", "disable_tagging", "imdsv1_fallback"}
)  # fmt: skip
"""Options that do not change what a reader finds."""
_PROVIDERS = "org.apache.hadoop.fs.s3a."
_KEY = secrets.token_bytes(16)
"""Of this process: a scheme must not let anybody try secrets against it."""


def uri_of(place: Place) -> str:
    """The root of the parts' names; what a URI must escape is escaped."""
    if place.kind == "files":
        return "file:" + quote(place.root)
    scheme, _, rest = place.root.partition("://")
    return f"{'s3a' if scheme == 's3' else scheme}://{quote(rest)}"


def scan_uri(place: Place) -> str:
    """The root of the parts' names for a relation that is given `settings_of(place)`."""
    found = uri_of(place)
    settings = _s3_settings(place)
    return found if not settings else f"{_scheme(settings)}:{found.partition(':')[2]}"


def readable(jvm: Jvm, place: Place) -> bool:
    """Whether Spark's own reader can open the parts, with the same settings as the database itself."""
    if place.kind == "files":
        return True
    name = _CLASSES.get(_hadoop_scheme(place))
    return place.kind == "objects" and name is not None and translatable(place) and _there(jvm.jvm, name)


def _there(jvm: Any, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        jvm.org.apache.spark.util.Utils.classForName(name, True, False)
    except Py4JJavaError:
        return False
    return True


def settings_of(place: Place) -> dict[str, str]:
    """For S3 the options that the database was opened with; for others nothing: Hadoop finds them where it always does."""
    settings = _s3_settings(place)
    return {**settings, f"fs.{_scheme(settings)}.impl": _S3A} if settings else {}


def _hadoop_scheme(place: Place) -> str:
    return uri_of(place).partition(":")[0]


def _scheme(settings: dict[str, str]) -> str:
    """A scheme that these settings have to themselves in this application."""
    text = json.dumps(settings, sort_keys=True).encode()
    return f"s3a-{hashlib.blake2b(text, key=_KEY, digest_size=8).hexdigest()}"


def _s3_options(place: Place) -> dict[str, str]:
    """The options of the URL, each by one name."""
    short = ((key.lower().removeprefix("aws_"), value) for key, value in place.options)
    return {_ALIASES.get(key, key): value for key, value in short}


def translatable(place: Place) -> bool:
    """Whether Hadoop can be given all that the URL says; if not, tasks of ours open the parts as the database does."""
    if _hadoop_scheme(place) != "s3a":
        return True
    given = _s3_options(place)
    # With an endpoint of its own, obstore takes that for the bucket's, and Hadoop would put the bucket before it once more.
    bucket_in_endpoint = "endpoint" in given and _is_true(given.get(_STYLE, ""))
    return not bucket_in_endpoint and given.keys() <= _S3.keys() | _OF_WRITERS | {_STYLE, _UNSIGNED}


def _s3_settings(place: Place) -> dict[str, str]:
    """What Hadoop's S3 must know; empty: it is told nothing."""
    if place.kind != "objects" or _hadoop_scheme(place) != "s3a":
        return {}
    given = _s3_options(place)
    found = {_S3[key]: value for key, value in given.items() if key in _S3}
    if "endpoint" in given:
        found["path.style.access"] = "true"
        found["connection.ssl.enabled"] = str(not given["endpoint"].startswith("http://")).lower()
    elif _STYLE in given:
        found["path.style.access"] = str(not _is_true(given[_STYLE])).lower()
    found |= _credentials(given)
    bucket = place.root.partition("://")[2].partition("/")[0]
    return {f"fs.s3a.bucket.{bucket}.{key}": value for key, value in found.items()}


def _credentials(given: dict[str, str]) -> dict[str, str]:
    """Which keys count: those of the URL alone, if it has some, whatever provider or key store the session names."""
    if _is_true(given.get(_UNSIGNED, "")):
        provider = "AnonymousAWSCredentialsProvider"
    elif "access_key_id" not in given:
        return {}
    else:
        kind = "Temporary" if "session_token" in given else "Simple"
        provider = f"{kind}AWSCredentialsProvider"
    return {"aws.credentials.provider": _PROVIDERS + provider, "security.credential.provider.path": ""}


def _is_true(text: str) -> bool:
    return text.lower() in ("true", "1", "yes", "on", "y")
