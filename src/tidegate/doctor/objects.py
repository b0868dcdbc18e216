"""Checks of objects: the listing of the blob store against the states of all collections.

| in the listing | in a state | |
|---|---|---|
| yes | yes, of another size | the object is damaged |
| no | yes | the object is missing |
| yes, older than the grace | no | an orphan: its writer was killed; `sweep` deletes it |
| yes, younger | no | perhaps on its way into a state |

States are read before the listing and, of collections with a suspicious object, once more after it: what was replaced meanwhile is
neither missing nor an orphan.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.doctor.examination import CollectionFacts, Examination
from tidegate.doctor.finding import Finding, Severity, condense
from tidegate.storage.blob import FileBlob
from tidegate.storage.catalog import Catalog
from tidegate.storage.maintain import FOLDERS
from tidegate.text import format_bytes, plural, time_ago

MAX_OBJECTS = 2_000_000
"""Objects of a listing that are held in memory."""
LISTING_SCHEMA = pa.schema([("name", pa.string()), ("size", pa.int64()), ("written", pa.int64())])


def check_objects(examination: Examination) -> list[Finding]:
    """Compares the objects of the blob store with the states of all collections."""
    before = examination.facts
    listing = _listing(examination)
    if listing.num_rows >= MAX_OBJECTS:
        message = (
            f"the store has more than {MAX_OBJECTS:,} objects: orphans and missing files were not looked for"
        )
        return [Finding(Severity.NOTE, "files", "all collections", message, "tidegate sweep finds orphans")]
    facts = {one.shard: one for one in before if one.error is None}
    suspicious = _shards(_missing(listing, before)) | _shards(_orphans(listing, before))
    for shard in suspicious & facts.keys():
        facts[shard] = examination.collection_facts(facts[shard].name, shard)
    now = [one for one in facts.values() if one.error is None]
    unreadable = {one.shard for one in before if one.error is not None}
    findings = [*_damage(listing, now), *_orphan_findings(examination, listing, now, unreadable)]
    message = f"{plural(listing.num_rows, 'file')}: each belongs to a state, and none is missing"
    return [
        *condense(findings, Finding(Severity.OK, "files", "all collections", message)),
        *_waiting(examination, now),
        *_temporary(examination),
    ]


def _listing(examination: Examination) -> pa.Table:
    """The objects below the folders of parts and rollups."""
    tables = [LISTING_SCHEMA.empty_table()]
    for i, folder in enumerate(FOLDERS):
        examination.report("files", i, len(FOLDERS))
        infos = list(islice(examination.root.blob.list(f"{folder}/"), MAX_OBJECTS))
        columns = ([info[i] for info in infos] for i in range(3))
        tables.append(pa.table(dict(zip(LISTING_SCHEMA.names, columns, strict=True)), schema=LISTING_SCHEMA))
    return pa.concat_tables(tables).combine_chunks()


def _objects(facts: list[CollectionFacts]) -> pa.Table:
    tables = [
        one.objects.append_column("shard", pa.repeat(pa.scalar(one.shard, pa.string()), one.objects.num_rows))
        for one in facts
    ]
    schema = pa.schema([("name", pa.string()), ("size", pa.int64()), ("shard", pa.string())])
    return pa.concat_tables([schema.empty_table(), *tables])


def _missing(listing: pa.Table, facts: list[CollectionFacts]) -> pa.Table:
    """The objects of states that are not listed."""
    objects = _objects(facts)
    return objects.filter(pc.invert(pc.is_in(objects.column("name"), listing.column("name"))))


def _orphans(listing: pa.Table, facts: list[CollectionFacts]) -> pa.Table:
    """The listed objects that no state names, with the shard in their name."""
    waste = pa.chunked_array([[name for one in facts for name, _ in one.garbage]], pa.string())
    names = pa.chunked_array([*_objects(facts).column("name").chunks, *waste.chunks], pa.string())
    rest = listing.filter(pc.invert(pc.is_in(listing.column("name"), names)))
    pieces = pc.split_pattern(rest.column("name"), "/", max_splits=2)
    return rest.append_column("shard", pc.list_element(pieces, 1) if rest.num_rows else pa.array([], pa.string()))  # fmt: skip


def _shards(table: pa.Table) -> set[str]:
    return set(pc.unique(table.column("shard")).to_pylist())


def _damage(listing: pa.Table, facts: list[CollectionFacts]) -> list[Finding]:
    """Objects of states that are missing, or have another size than was written."""
    names = {one.shard: one.name for one in facts}
    findings = []
    for name, shard in _pairs(_missing(listing, facts)):
        message = f"{name} is missing: it was deleted from outside. Queries that need it fail"
        findings.append(Finding(Severity.PROBLEM, "files", names[shard], message, _RESTORE))
    sizes = _objects(facts).filter(pc.field("size") >= 0)
    joined = sizes.join(listing.select(["name", "size"]), "name", right_suffix="_listed", join_type="inner")
    for name, shard in _pairs(joined.filter(pc.field("size") != pc.field("size_listed"))):
        message = f"{name} has another size than when it was written: it is damaged"
        findings.append(Finding(Severity.PROBLEM, "files", names[shard], message, _RESTORE))
    return findings


_RESTORE = "restore this file from a backup: docs/operations.md, Backup"


def _pairs(table: pa.Table) -> list[tuple[str, str]]:
    rows = table.select(["name", "shard"]).sort_by("name").to_pylist()
    return [(row["name"], row["shard"]) for row in rows]


def _orphan_findings(
    examination: Examination, listing: pa.Table, facts: list[CollectionFacts], unreadable: set[str]
) -> list[Finding]:
    """Objects that no state names and that are older than the grace, by collection."""
    names = {one.shard: one.name for one in facts}
    orphans, now = _orphans(listing, facts), examination.clock.now()
    old = orphans.filter(pc.field("written") <= now - examination.config.sweep_grace_ms)
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    oldest: dict[str, int] = {}
    for row in old.to_pylist():
        counts[row["shard"]] += 1
        sizes[row["shard"]] += row["size"]
        oldest[row["shard"]] = min(row["written"], oldest.get(row["shard"], row["written"]))
    loose = _loose_shards(examination)
    findings = []
    for shard, count in counts.most_common():
        if shard in unreadable or shard in loose:
            continue  # its state would say what belongs to it; of a dropped table, sweep removes all
        amount = f"{plural(count, 'file')}, {format_bytes(sizes[shard])}, the oldest of {time_ago(oldest[shard], now / 1000)}"
        if shard in names:
            message = f"{amount}: no state names them. Writers that were killed left them; they cost room, and nothing else"
            findings.append(Finding(Severity.WARNING, "files", names[shard], message, "tidegate sweep"))
        else:
            message = f"{amount}: of a collection that the metadata does not know, or no longer"
            action = "if no backup holds newer metadata, delete these files: " + ", ".join(
                f"{folder}/{shard}" for folder in FOLDERS
            )
            findings.append(Finding(Severity.WARNING, "files", f"unknown {shard}", message, action))
    return findings


def _loose_shards(examination: Examination) -> set[str]:
    """Shards without a name, which `sweep` removes."""
    options = examination.root.catalog.machine.fetch().options
    return {key.removeprefix("loose/") for key in options if key.startswith("loose/")} | {Catalog.KEY}


def _waiting(examination: Examination, facts: list[CollectionFacts]) -> list[Finding]:
    """Replaced objects that sweep may delete by now."""
    limit = examination.clock.now() - examination.config.sweep_grace_ms
    waiting = sum(1 for one in facts for _, at in one.garbage if at <= limit)
    if not waiting:
        return []
    message = f"{plural(waiting, 'replaced file')} can be deleted"
    return [Finding(Severity.NOTE, "files", "all collections", message, "tidegate sweep")]


def _temporary(examination: Examination) -> list[Finding]:
    """Temporary files of killed writers in a folder."""
    blob = examination.root.blob
    if not isinstance(blob, FileBlob):
        return []
    count = sum(1 for _ in blob.temporary_files(examination.config.sweep_grace_ms / 1000))
    if not count:
        return []
    message = f"{plural(count, 'temporary file')} of writers that were killed"
    return [Finding(Severity.WARNING, "files", str(blob.root), message, "tidegate sweep")]
