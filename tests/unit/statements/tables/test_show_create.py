"""SHOW CREATE gives statements that make the same again: odd names, keys, defaults and comments."""

from __future__ import annotations

import tidegate

DEFINED = r"""
CREATE TABLE "We""ird; DROP TABLE x" (
    "a b" int8 DEFAULT 5, -- five
    "sel""ect" text DEFAULT 'it''s "q" -- x',
    "default" text[] DEFAULT ARRAY['a''b', ';'],
    CONSTRAINT "my""key" PRIMARY KEY ("sel""ect", "a b") NOT ENFORCED
) CLUSTER BY ("a b") KEEP STATISTICS ("default") WITH (RETENTION '3 days');
COMMENT ON TABLE "We""ird; DROP TABLE x" IS E'it''s; DROP TABLE t; --\nline \\ "2"';
COMMENT ON COLUMN "We""ird; DROP TABLE x"."sel""ect" IS E'tab\t''x';
CREATE VIEW "v""1" ("x y") AS SELECT "a b" FROM "We""ird; DROP TABLE x" -- what ends it
;
COMMENT ON VIEW "v""1" IS 'v''c';
COMMENT ON COLUMN "v""1"."x y" IS 'its column';
CREATE VIEW plain AS SELECT 1 AS a;
"""
COMMENTS = "SELECT c.relname, d.objsubid, d.description FROM pg_class c JOIN pg_description d ON d.objoid = c.oid ORDER BY 1, 2"
KEYS = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"


def test_what_it_shows_makes_the_same_again() -> None:
    with tidegate.open("memory://") as db, tidegate.open("memory://") as other:
        db.sql(DEFINED)
        for what in ('TABLE "We""ird; DROP TABLE x"', 'VIEW "v""1"', "VIEW plain"):
            shown = db.sql(f"SHOW CREATE {what}").rows()[0][1]
            other.sql(shown)
            assert other.sql(f"SHOW CREATE {what}").rows()[0][1] == shown
        assert shown == "CREATE VIEW plain AS SELECT 1 AS a"
        comments = db.sql(COMMENTS).rows()
        assert len(comments) == 4
        assert other.sql(COMMENTS).rows() == comments
        assert other.sql(KEYS).rows() == db.sql(KEYS).rows() != []
