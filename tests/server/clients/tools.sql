-- What BI tools ask of the catalog, written anew over the same tables, columns, functions and casts as theirs: see test_pg_tools.py.

-- name: metabase: relations
SELECT n.nspname AS "schema", c.relname AS "name", CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED
TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS "type",
d.description AS "description", stat.n_live_tup AS "estimated_row_count" FROM "pg_catalog"."pg_class" AS "c" INNER JOIN
"pg_catalog"."pg_namespace" AS "n" ON "c"."relnamespace" = "n"."oid" LEFT JOIN "pg_catalog"."pg_description" AS "d" ON
("c"."oid" = "d"."objoid") AND ("d"."objsubid" = %s) AND ("d"."classoid" = 'pg_class'::regclass) LEFT JOIN
"pg_stat_user_tables" AS "stat" ON ("n"."nspname" = "stat"."schemaname") AND ("c"."relname" = "stat"."relname") WHERE
("n"."nspname" !~ '^pg_') AND ("n"."nspname" <> %s) AND c.relkind in ('r', 'p', 'v', 'f', 'm') AND ("n"."nspname" IN
(%s)) ORDER BY "type" ASC, "schema" ASC, "name" ASC

-- name: metabase: fields
SELECT "c"."column_name" AS "name", CASE WHEN "c"."udt_schema" IN ('public', 'pg_catalog') THEN FORMAT('%%s',
"c"."udt_name") ELSE FORMAT('"%%s"."%%s"', "c"."udt_schema", "c"."udt_name") END AS "database-type",
"c"."ordinal_position" - 1 AS "database-position", "c"."table_schema" AS "table-schema", "c"."table_name" AS
"table-name", "pk"."column_name" IS NOT NULL AS "pk?", COL_DESCRIPTION(CAST(CAST(FORMAT('%%I.%%I',
CAST("c"."table_schema" AS TEXT), CAST("c"."table_name" AS TEXT)) AS REGCLASS) AS OID), "c"."ordinal_position") AS
"field-comment", (("column_default" IS NULL) OR (LOWER("column_default") = 'null')) AND ("is_nullable" = 'NO') AND NOT
((("column_default" IS NOT NULL) AND ("column_default" LIKE '%%nextval(%%')) OR ("is_identity" <> 'NO')) AS
"database-required", (("column_default" IS NOT NULL) AND ("column_default" LIKE '%%nextval(%%')) OR ("is_identity" <>
'NO') AS "database-is-auto-increment" FROM "information_schema"."columns" AS "c" LEFT JOIN (SELECT "tc"."table_schema",
"tc"."table_name", "kc"."column_name" FROM "information_schema"."table_constraints" AS "tc" INNER JOIN
"information_schema"."key_column_usage" AS "kc" ON ("tc"."constraint_name" = "kc"."constraint_name") AND
("tc"."table_schema" = "kc"."table_schema") AND ("tc"."table_name" = "kc"."table_name") WHERE "tc"."constraint_type" =
'PRIMARY KEY') AS "pk" ON ("c"."table_schema" = "pk"."table_schema") AND ("c"."table_name" = "pk"."table_name") AND
("c"."column_name" = "pk"."column_name") WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND
("c"."table_name" IN (%s)) UNION ALL SELECT "pa"."attname", CASE WHEN "ptn"."nspname" IN ('public', 'pg_catalog') THEN
FORMAT('%%s', "pt"."typname") ELSE FORMAT('"%%s"."%%s"', "ptn"."nspname", "pt"."typname") END, "pa"."attnum" - 1,
"pn"."nspname", "pc"."relname", FALSE, NULL, FALSE, FALSE FROM "pg_catalog"."pg_class" AS "pc" INNER JOIN
"pg_catalog"."pg_namespace" AS "pn" ON "pn"."oid" = "pc"."relnamespace" INNER JOIN "pg_catalog"."pg_attribute" AS "pa"
ON "pa"."attrelid" = "pc"."oid" INNER JOIN "pg_catalog"."pg_type" AS "pt" ON "pt"."oid" = "pa"."atttypid" INNER JOIN
"pg_catalog"."pg_namespace" AS "ptn" ON "ptn"."oid" = "pt"."typnamespace" WHERE ("pc"."relkind" = 'm') AND
("pa"."attnum" >= 1) ORDER BY "table-schema" ASC, "table-name" ASC, "database-position" ASC

-- name: metabase: foreign keys
SELECT "fk_ns"."nspname" AS "fk-table-schema", "fk_table"."relname" AS "fk-table-name", "fk_column"."attname" AS
"fk-column-name", "pk_ns"."nspname" AS "pk-table-schema", "pk_table"."relname" AS "pk-table-name", "pk_column"."attname"
AS "pk-column-name" FROM "pg_constraint" AS "c" INNER JOIN "pg_class" AS "fk_table" ON "c"."conrelid" = "fk_table"."oid"
INNER JOIN "pg_namespace" AS "fk_ns" ON "c"."connamespace" = "fk_ns"."oid" INNER JOIN "pg_attribute" AS "fk_column" ON
"c"."conrelid" = "fk_column"."attrelid" INNER JOIN "pg_class" AS "pk_table" ON "c"."confrelid" = "pk_table"."oid" INNER
JOIN "pg_namespace" AS "pk_ns" ON "pk_table"."relnamespace" = "pk_ns"."oid" INNER JOIN "pg_attribute" AS "pk_column" ON
"c"."confrelid" = "pk_column"."attrelid" WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND
("c"."contype" = 'f'::char) AND ("fk_column"."attnum" = ANY(c.conkey)) AND ("pk_column"."attnum" = ANY(c.confkey)) AND
("fk_ns"."nspname" IN (%s)) ORDER BY "fk-table-schema" ASC, "fk-table-name" ASC

-- name: metabase: indexes
SELECT "tmp"."table-schema", "tmp"."table-name", TRIM(BOTH '"' FROM "pg_catalog"."pg_get_indexdef"("tmp"."ci_oid",
"tmp"."pos", FALSE)) AS "field-name" FROM (SELECT "n"."nspname" AS "table-schema", "ct"."relname" AS "table-name",
"ci"."oid" AS "ci_oid", ("information_schema"."_pg_expandarray"("i"."indkey"))."n" AS "pos" FROM "pg_catalog"."pg_class"
AS "ct" INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON "ct"."relnamespace" = "n"."oid" INNER JOIN
"pg_catalog"."pg_index" AS "i" ON "ct"."oid" = "i"."indrelid" INNER JOIN "pg_catalog"."pg_class" AS "ci" ON "ci"."oid" =
"i"."indexrelid" WHERE ("pg_catalog"."pg_get_expr"("i"."indpred", "i"."indrelid") IS NULL) AND n.nspname !~
'^information_schema|pg_') AS "tmp" WHERE "tmp"."pos" = 1

-- name: metabase: privileges
WITH table_privileges AS ( SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table,
pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"' || '.' || '"' || t.objectname || '"',
'update') AS "update", pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"' || '.' || '"' ||
t.objectname || '"', 'select') AS "select", pg_catalog.has_table_privilege(current_user, '"' || t.schemaname || '"' ||
'.' || '"' || t.objectname || '"', 'delete') AS "delete" FROM (SELECT schemaname, tablename AS objectname FROM
pg_catalog.pg_tables UNION SELECT schemaname, viewname AS objectname FROM pg_catalog.pg_views UNION SELECT schemaname,
matviewname AS objectname FROM pg_catalog.pg_matviews) t WHERE t.schemaname !~ '^pg_' AND t.schemaname <>
'information_schema' AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')) SELECT t.* FROM
table_privileges t WHERE t.select OR t.update OR t.delete ORDER BY 3

-- name: dbeaver: databases
SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate ORDER BY db.datname

-- name: dbeaver: schemas
SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid
= n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname

-- name: dbeaver: types
SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, d.description FROM
pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem LEFT OUTER JOIN pg_catalog.pg_class c
ON c.oid = t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid WHERE t.typname IS NOT NULL AND
(c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')

-- name: dbeaver: columns
SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, dep.objid FROM
pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON a.attrelid = c.oid LEFT OUTER JOIN pg_catalog.pg_attrdef
ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum LEFT OUTER JOIN pg_catalog.pg_description dsc ON c.oid =
dsc.objoid AND a.attnum = dsc.objsubid LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i'
AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.relkind NOT IN ('i', 'I',
'c') ORDER BY a.attnum

-- name: dbeaver: sizes
SELECT c.oid, pg_catalog.pg_total_relation_size(c.oid) AS total_rel_size, pg_catalog.pg_relation_size(c.oid) AS rel_size
FROM pg_class c WHERE c.relnamespace = 2200

-- name: dbeaver: functions
SELECT p.oid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) AS arg_defaults, d.description FROM pg_catalog.pg_proc p
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = p.oid WHERE p.pronamespace = 2200 AND p.prokind <> 'a' ORDER
BY p.proname

-- name: dbeaver: roles
SELECT a.oid, a.*, pd.description FROM pg_catalog.pg_roles a LEFT JOIN pg_catalog.pg_shdescription pd ON a.oid =
pd.objoid ORDER BY a.rolname

-- name: pgadmin: session
SELECT roles.oid AS id, roles.rolname AS name, roles.rolsuper AS is_superuser, CASE WHEN roles.rolsuper THEN true ELSE
roles.rolcreaterole END AS can_create_role FROM pg_catalog.pg_roles AS roles WHERE rolname = current_user

-- name: pgadmin: database
SELECT db.oid AS did, db.datname, db.datallowconn, pg_encoding_to_char(db.encoding) AS serverencoding,
has_database_privilege(db.oid, 'CREATE') AS cancreate, datistemplate FROM pg_catalog.pg_database db WHERE db.datname =
current_database()

-- name: pgadmin: tables
SELECT rel.oid, rel.relname AS name, (SELECT count(*) FROM pg_trigger WHERE tgrelid = rel.oid AND tgisinternal = FALSE)
AS triggercount, (SELECT count(*) FROM pg_inherits WHERE inhrelid = rel.oid) AS inherited FROM pg_class rel WHERE
rel.relkind IN ('r', 's', 't', 'p') AND rel.relnamespace = 2200::oid ORDER BY rel.relname

-- name: pgadmin: columns
SELECT att.attname AS name, att.attnum, format_type(ty.oid, NULL) AS datatype, format_type(ty.oid, att.atttypmod) AS
displaytypname, att.attnotnull AS not_null, CASE WHEN att.attidentity IN ('a', 'd') THEN 'i' WHEN att.attgenerated IN
('s') THEN 'g' ELSE 'n' END AS colconstype FROM pg_catalog.pg_attribute att JOIN pg_catalog.pg_type ty ON ty.oid =
att.atttypid WHERE att.attrelid = 'orders'::regclass::oid AND att.attnum > 0 AND att.attisdropped IS FALSE ORDER BY
att.attnum

-- name: pgadmin: activity
SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = current_database()

-- name: superset: views
SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname =
'public' AND c.relkind = ANY (ARRAY['v', 'm'])

-- name: superset: primary key
SELECT conname, array_agg(a.attname) FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum =
ANY (c.conkey) WHERE c.contype = 'p' GROUP BY conname

-- name: power bi: tables
select TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.tables where TABLE_SCHEMA not in
('information_schema', 'pg_catalog') order by TABLE_SCHEMA, TABLE_NAME

-- name: npgsql: types
SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid FROM (SELECT typ.oid, typ.typnamespace,
typ.typname, typ.typtype, typ.typnotnull, elemtyp.oid AS elemtypoid FROM pg_type AS typ LEFT JOIN pg_type AS elemtyp ON
elemtyp.oid = typ.typelem LEFT JOIN pg_proc AS elemproc ON elemproc.oid = typ.typreceive WHERE elemproc.proname =
'array_recv') AS t JOIN pg_namespace AS ns ON ns.oid = t.typnamespace
