"""The doctor: examines a lake and this machine, and says what is wrong and what to do.

    db.doctor().text()                        the open lake
    diagnose_location("s3://bucket/lake")     one that perhaps cannot be opened: `tidegate doctor`

    problem  files        orders: part/3f…/9a… is missing: it was deleted from outside. Queries that need it fail
                          → restore this file from a backup: docs/operations.md, Backup

| module | checks |
|---|---|
| `stores` | blob store and metadata: whether they answer, keep their promises, and how fast |
| `clocks` | this machine against the stores; times ahead of it |
| `collections` | unreadable states, leases, sizes |
| `objects` | missing, damaged and orphaned files, from one listing |
| `checksums` | every byte, with `deep` |
| `sources` | state, lag, upstreams |
| `host` | room, open files, permissions |
| `versions` | Python, libraries, format, Java |
| `run` | runs them all; `examination` is what each is given, `finding` what each returns |

User data is never changed: probes have names of their own and are removed, and with `read_only` nothing is written. The room uses
the catalog, states and maintenance of `storage`, and the status of sources of `ingest`; `session` and `cli` use it.
"""

from tidegate.doctor.examination import ReportStep
from tidegate.doctor.finding import Diagnosis, Finding, Severity
from tidegate.doctor.run import diagnose, diagnose_location

__all__ = ["Diagnosis", "Finding", "ReportStep", "Severity", "diagnose", "diagnose_location"]
