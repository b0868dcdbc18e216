"""One batch of a source: its position, the tasks that read it, and its commit.

    planner = BatchPlanner(source, shards, place, config, clock, once=True)
    while (tasks := planner.next_tasks()) is not None:
        results = [run_task(task) for task in tasks]       here, or as tasks of Spark
        commit_batch(source, shards, results)

| module | contents |
|---|---|
| `position.py` | how far each shard of a source has come, and what the next batch brings |
| `planning.py` | the tasks of the next batch |
| `task.py` | what one task does: read, decode, transform, write parts |
| `commit.py` | the end of a batch: all shards move to the new position |
| `upsert_lookup.py` | ENVELOPE UPSERT: the stored rows of the keys of a batch |
| `replay.py` | ALTER SOURCE … REPLAY ERRORS |
"""

from tidegate.ingest.batch.commit import commit_batch
from tidegate.ingest.batch.planning import BatchPlanner
from tidegate.ingest.batch.task import IngestTask, TaskResult, run_task
from tidegate.ingest.envelopes.output import RecordCounts

__all__ = ["BatchPlanner", "IngestTask", "RecordCounts", "TaskResult", "commit_batch", "run_task"]
