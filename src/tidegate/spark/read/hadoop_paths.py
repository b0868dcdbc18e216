"""The URIs and Hadoop settings with which Spark's own reader opens parts.

    uri_of(place)                 file:/data/lake · s3a://bucket/lake, as users write it
    scan_uri(place)               the same, or s3a-5f0c2e91d3a7b604://bucket/lake if the database's URL has settings
    spark_can_read(jvm, place)    whether Spark can open such files
    hadoop_settings(place)        Hadoop's settings for the store, as options of a relation

PySpark from PyPI has no classes for S3, Google or Azure (`hadoop-aws` and the like). Without them, and for a database in memory,
tasks of ours read the parts (`late_scan.py`): every query works, but filters on such a DataFrame do not prune, unlike `db.sql`.

**A scheme for each set of settings.** Hadoop keeps one FileSystem per scheme, bucket and user in a JVM, with the settings of its
first use. With `s3a://lake`, a second database in a bucket of the same name at another endpoint would be read through the first
one's FileSystem, and a plain `spark.read.parquet("s3a://lake/…")` would get the credentials of a database that somebody else has
opened. So the endpoint and keys of a URL belong to a scheme of their own, known only to the relations of that database. That makes
one FileSystem per JVM and set of settings: no more than are needed anyway. If the URL has no settings, the scheme is `s3a:`, as the
session configures it.

Settings are given per bucket (`fs.s3a.bucket.lake.endpoint`): these override what the session sets for all buckets, and ours
override what the session sets for this bucket.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any
from urllib.parse import quote

from tidegate.spark.jvm import Jvm
from tidegate.storage import Location

_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_CLASSES = {
    "s3a": _S3A,
    "gs": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "abfs": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
    "abfss": "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
}
"""The Hadoop class of each scheme."""
_S3 = {
    "endpoint": "endpoint",
    "region": "endpoint.region",
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
}
"""Hadoop's names of obstore's options; missing ones both find in the environment."""
_ALIASES = {
    "endpoint_url": "endpoint",
    "endpoint_url_s3": "endpoint",
    "default_region": "region",
    "token": "session_token",
}
"""Aliases of obstore's options, without the prefix `aws_`."""
_STYLE, _UNSIGNED = "virtual_hosted_style_request", "skip_signature"
_WRITE_OPTIONS = frozenset(
    {"allow_http", "timeout", "connect_timeout", "conditional_put", "copy_if_not_exists", "checksum_algorithm",
     "unsigned_payload", "disable_tagging", "imdsv1_fallback"}
)  # fmt: skip
"""Options that do not affect reading."""
_PROVIDERS = "org.apache.hadoop.fs.s3a."
_KEY = secrets.token_bytes(16)
"""Key of this process: a scheme must not allow guessing secrets."""


def uri_of(place: Location) -> str:
    """Returns the root of the parts' URIs, escaped as a URI must be."""
    if place.kind == "files":
        return "file:" + quote(place.root)
    scheme, _, rest = place.root.partition("://")
    return f"{'s3a' if scheme == 's3' else scheme}://{quote(rest)}"


def scan_uri(place: Location) -> str:
    """Returns the root of the parts' URIs for a relation that has `hadoop_settings(place)`."""
    uri = uri_of(place)
    settings = _s3_settings(place)
    return uri if not settings else f"{_scheme(settings)}:{uri.partition(':')[2]}"


def spark_can_read(jvm: Jvm, place: Location) -> bool:
    """Whether Spark's own reader can open the parts, with the same settings as the database itself."""
    if place.kind == "files":
        return True
    name = _CLASSES.get(_hadoop_scheme(place))
    return (
        place.kind == "objects" and name is not None and is_translatable(place) and _has_class(jvm.jvm, name)
    )


def _has_class(jvm: Any, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        jvm.org.apache.spark.util.Utils.classForName(name, True, False)
    except Py4JJavaError:
        return False
    return True


def hadoop_settings(place: Location) -> dict[str, str]:
    """Returns Hadoop's settings for a database's S3 options; other stores use Hadoop's own configuration."""
    settings = _s3_settings(place)
    return {**settings, f"fs.{_scheme(settings)}.impl": _S3A} if settings else {}


def _hadoop_scheme(place: Location) -> str:
    return uri_of(place).partition(":")[0]


def _scheme(settings: dict[str, str]) -> str:
    """Returns a scheme that only these settings have in this application."""
    text = json.dumps(settings, sort_keys=True).encode()
    return f"s3a-{hashlib.blake2b(text, key=_KEY, digest_size=8).hexdigest()}"


def _s3_options(place: Location) -> dict[str, str]:
    """Returns the options of the URL under their canonical names."""
    short = ((key.lower().removeprefix("aws_"), value) for key, value in place.options)
    return {_ALIASES.get(key, key): value for key, value in short}


def is_translatable(place: Location) -> bool:
    """Whether Hadoop has a setting for each option of the URL; if not, tasks of ours open the parts."""
    if _hadoop_scheme(place) != "s3a":
        return True
    options = _s3_options(place)
    # obstore takes such an endpoint for the bucket's own; Hadoop would prepend the bucket once more.
    bucket_in_endpoint = "endpoint" in options and _is_true(options.get(_STYLE, ""))
    return not bucket_in_endpoint and options.keys() <= _S3.keys() | _WRITE_OPTIONS | {_STYLE, _UNSIGNED}


def _s3_settings(place: Location) -> dict[str, str]:
    """Returns Hadoop's S3 settings for the bucket; empty if the URL has no options."""
    if place.kind != "objects" or _hadoop_scheme(place) != "s3a":
        return {}
    options = _s3_options(place)
    settings = {_S3[key]: value for key, value in options.items() if key in _S3}
    if "endpoint" in options:
        settings["path.style.access"] = "true"
        settings["connection.ssl.enabled"] = str(not options["endpoint"].startswith("http://")).lower()
    elif _STYLE in options:
        settings["path.style.access"] = str(not _is_true(options[_STYLE])).lower()
    settings |= _credentials(options)
    bucket = place.root.partition("://")[2].partition("/")[0]
    return {f"fs.s3a.bucket.{bucket}.{key}": value for key, value in settings.items()}


def _credentials(options: dict[str, str]) -> dict[str, str]:
    """Returns settings by which only the URL's keys count, whatever the session configures."""
    if _is_true(options.get(_UNSIGNED, "")):
        provider = "AnonymousAWSCredentialsProvider"
    elif "access_key_id" not in options:
        return {}
    else:
        kind = "Temporary" if "session_token" in options else "Simple"
        provider = f"{kind}AWSCredentialsProvider"
    return {"aws.credentials.provider": _PROVIDERS + provider, "security.credential.provider.path": ""}


def _is_true(text: str) -> bool:
    return text.lower() in ("true", "1", "yes", "on", "y")
