"""What the pages say of views: definition, columns, and what they read."""

from __future__ import annotations

import tidegate
from tidegate.statements.preview import view_facts


def test_views_read_collections_also_through_views() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE a (id int8); CREATE TABLE b (id int8, note text)")
        db.sql("CREATE VIEW v AS SELECT b.note FROM a JOIN b ON a.id = b.id")
        db.sql('CREATE VIEW "W" (n) AS SELECT count(*) FROM v')
        facts = view_facts(db.context)
        assert facts["v"].columns == (("note", "text"),)
        assert (set(facts["v"].collections), facts["v"].views) == ({"a", "b"}, ())
        assert facts["W"].sql == 'CREATE VIEW "W" (n) AS SELECT count(*) FROM v'
        assert facts["W"].columns == (("n", "int8"),)
        assert (set(facts["W"].collections), facts["W"].views) == ({"a", "b"}, ("v",))
        db.sql(f"DROP VIEW v CASCADE; {facts['v'].sql}; {facts['W'].sql}")
        assert view_facts(db.context) == facts


def test_a_view_whose_table_is_missing_has_a_problem() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE a (id int8); CREATE VIEW v AS SELECT id FROM a")
        item = db.context.catalog.find("a")
        assert item is not None
        db.context.catalog.drop({"a": item})
        facts = view_facts(db.context)["v"]
        assert facts.problem is not None
        assert '"a"' in facts.problem.message
        assert facts.collections == ()
