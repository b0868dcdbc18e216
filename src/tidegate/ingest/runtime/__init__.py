"""Running sources: the ingestions that `db.ingest` starts, their progress, and the status of sources.

    q = db.ingest("orders")              an `Ingestion`, in the background until q.stop()
    q.progress()                         IngestionProgress(source='orders', state='running', batches=3, records=30000, …)
    db.status().sources["orders"]        SourceStatus(kind='kafka', state='running', …)

| module | contents |
|---|---|
| `ingestion.py` | `Ingestion`: a thread per source that reads batches, retries, pauses and stops |
| `start.py` | starts one source, several as an `IngestionGroup`, or all |
| `progress.py` | `IngestionProgress`: the counts since the start, as a value, a line or JSON |
| `status.py` | `SourceStatus`: the state of a source, from its shards |
"""

from tidegate.ingest.runtime.ingestion import BatchRunner, Ingestion, LocalRunner
from tidegate.ingest.runtime.progress import IngestionProgress, ReportIngestion, log_progress
from tidegate.ingest.runtime.start import IngestionGroup, ingest
from tidegate.ingest.runtime.status import SourceStatus, source_status, upstream_lag

__all__ = [
    "BatchRunner",
    "Ingestion",
    "IngestionGroup",
    "IngestionProgress",
    "LocalRunner",
    "ReportIngestion",
    "SourceStatus",
    "ingest",
    "log_progress",
    "source_status",
    "upstream_lag",
]
