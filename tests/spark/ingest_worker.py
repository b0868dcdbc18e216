"""A driver to be killed: ingests the sources of a database on Spark, once, and says when all is there.

python -m tests.spark.ingest_worker <database> <source> …
"""

from __future__ import annotations

import sys

import tidegate
from tests.spark.stream_worker import session
from tidegate.errors import TidegateError


def main(place: str, *names: str) -> int:
    """Ingests; 0 if all is there."""
    spark = session()
    with tidegate.open(place) as db:
        try:
            db.ingest(names, once=True, spark=spark, progress=lambda _: None)
        except TidegateError as error:
            print(f"failed: {error}", flush=True)
            return 1
    print("all done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
