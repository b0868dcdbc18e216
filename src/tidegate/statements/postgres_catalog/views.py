"""SQL that makes DuckDB look like PostgreSQL's catalog: views, and functions as macros.

The client's name, database and settings are variables of its DuckDB connection: `getvariable('tg_user')`.
"""

from __future__ import annotations

from tidegate.sql.bind import POSTGRES_VERSION
from tidegate.text import CONTEXTUAL, JOINING, RESERVED

DATABASE_OID, OWNER, CATALOG, PUBLIC, SCHEMA = 16_383, 10, 11, 2200, 13_000
"""OIDs of the database, of the owner of everything, and of the three schemas."""

_CONSTANT_FUNCTIONS = {
    "true": """pg_table_is_visible pg_type_is_visible pg_function_is_visible pg_collation_is_visible
               pg_operator_is_visible pg_opclass_is_visible pg_statistics_obj_is_visible""",
    "NULL::varchar": """pg_get_ruledef pg_get_triggerdef
               shobj_description pg_get_partkeydef pg_get_statisticsobjdef_columns
               pg_get_functiondef pg_get_serial_sequence pg_tablespace_location pg_get_function_sqlbody""",
    "false": "pg_relation_is_publishable pg_is_other_temp_schema pg_has_role_admin",
    "0::bigint": "pg_indexes_size pg_stat_get_numscans pg_stat_get_live_tuples pg_stat_get_dead_tuples",
}
"""Functions of one, two or three arguments that return a constant."""


def constant_macros() -> str:
    """Returns the macros of constant functions."""
    macros = [
        f"CREATE MACRO {name}(a) AS {value}, (a, b) AS {value}, (a, b, c) AS {value};"
        for value, names in _CONSTANT_FUNCTIONS.items()
        for name in names.split()
    ]
    objects = ["schema", "table", "database", "column", "any_column", "sequence", "function", "tablespace"]
    macros += [
        f"CREATE MACRO has_{name}_privilege(a, b) AS true, (a, b, c) AS true, (a, b, c, d) AS true;"
        for name in objects
    ]
    return "\n".join(macros)


def _words(words: frozenset[str]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


FUNCTIONS = f"""
CREATE MACRO tg_version() AS 'PostgreSQL {POSTGRES_VERSION} (Tidegate)';
CREATE MACRO tg_current_schema() AS 'public';
CREATE MACRO tg_current_schemas(a) AS CASE WHEN a THEN ['pg_catalog', 'public'] ELSE ['public'] END;
CREATE MACRO tg_current_database() AS getvariable('tg_database');
CREATE MACRO tg_current_catalog() AS getvariable('tg_database');
CREATE MACRO tg_current_user() AS getvariable('tg_user');
CREATE MACRO tg_current_role() AS getvariable('tg_user');
CREATE MACRO tg_session_user() AS getvariable('tg_user');
CREATE MACRO tg_user() AS getvariable('tg_user');
CREATE MACRO tg_setting(a) AS getvariable('tg_values')[list_position(list_transform(getvariable('tg_names'), lambda x: lower(x)),
    lower(a))];
CREATE MACRO tg_current_setting(a) AS tg_setting(a), (a, b) AS tg_setting(a);
CREATE MACRO tg_set_config(a, b, c) AS b;
CREATE MACRO pg_backend_pid() AS getvariable('tg_pid')::integer;
CREATE MACRO pg_is_in_recovery() AS false;
CREATE MACRO pg_advisory_unlock_all() AS '';
CREATE MACRO pg_my_temp_schema() AS 0::bigint;
CREATE MACRO inet_server_addr() AS NULL::varchar;
CREATE MACRO inet_server_port() AS NULL::integer;
CREATE MACRO inet_client_addr() AS NULL::varchar;
CREATE MACRO tg_txid_current() AS 1::bigint;
CREATE MACRO pg_postmaster_start_time() AS getvariable('tg_start')::timestamptz;
CREATE MACRO pg_conf_load_time() AS getvariable('tg_start')::timestamptz;
CREATE MACRO pg_encoding_to_char(a) AS 'UTF8';
CREATE MACRO pg_char_to_encoding(a) AS 6;
CREATE MACRO pg_get_userbyid(a) AS getvariable('tg_user');
CREATE MACRO pg_get_expr(a, b) AS a::varchar, (a, b, c) AS a::varchar;
CREATE MACRO pg_get_viewdef(a) AS (SELECT tg_v.sql FROM tg_views tg_v WHERE tg_v.oid::varchar = a::varchar
    OR tg_v.name = a::varchar),
    (a, b) AS (SELECT tg_v.sql FROM tg_views tg_v WHERE tg_v.oid::varchar = a::varchar OR tg_v.name = a::varchar);
CREATE MACRO pg_has_role(a, b) AS true, (a, b, c) AS true;
CREATE MACRO row_security_active(a) AS false;
CREATE MACRO pg_size_pretty(a) AS CASE WHEN a IS NULL THEN NULL WHEN abs(a) < 10240 THEN a::bigint::varchar || ' bytes'
    WHEN abs(a) < 10485248 THEN trunc((a / 1024.0) + sign(a) * 0.5)::bigint::varchar || ' kB'
    WHEN abs(a) < 10736893952 THEN trunc((a / 1048576.0) + sign(a) * 0.5)::bigint::varchar || ' MB'
    WHEN abs(a) < 10994579406848 THEN trunc((a / 1073741824.0) + sign(a) * 0.5)::bigint::varchar || ' GB'
    ELSE trunc((a / 1099511627776.0) + sign(a) * 0.5)::bigint::varchar || ' TB' END;
CREATE MACRO tg_size(a) AS (SELECT coalesce(max(tg_b.bytes), 0) FROM tg_sizes tg_b WHERE tg_b.oid = coalesce(try_cast(a AS bigint),
    (SELECT max(tg_r.oid) FROM tg_regclass tg_r WHERE tg_r.name = a::varchar)))::bigint;
CREATE MACRO pg_table_size(a) AS tg_size(a);
CREATE MACRO pg_relation_size(a) AS tg_size(a), (a, b) AS CASE WHEN b = 'main' THEN tg_size(a) ELSE 0 END::bigint;
CREATE MACRO pg_total_relation_size(a) AS tg_size(a);
CREATE MACRO pg_database_size(a) AS (SELECT coalesce(sum(tg_b.bytes), 0) FROM tg_sizes tg_b)::bigint;
CREATE MACRO pg_tablespace_size(a) AS pg_database_size(a);
CREATE MACRO pg_get_function_result(a) AS (SELECT tg_p.result FROM pg_proc tg_p WHERE tg_p.oid = a);
CREATE MACRO pg_get_function_arguments(a) AS (SELECT tg_p.arguments FROM pg_proc tg_p WHERE tg_p.oid = a);
CREATE MACRO pg_get_function_identity_arguments(a) AS pg_get_function_arguments(a);
CREATE MACRO array_remove(a, b) AS list_filter(a, lambda x: x <> b);
CREATE MACRO array_upper(a, b) AS len(a)::integer;
CREATE MACRO array_lower(a, b) AS CASE WHEN len(a) > 0 THEN 1 END;
CREATE MACRO quote_ident(a) AS CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_]*')
    AND a NOT IN ({_words(RESERVED | JOINING | CONTEXTUAL)}) THEN a
    ELSE '"' || replace(a, '"', '""') || '"' END;
CREATE MACRO parse_ident(a) AS list_transform(regexp_extract_all(a, '"(?:[^"]|"")*"|[^.]+'), lambda x: CASE WHEN x LIKE '"%"'
    THEN replace(x[2:-2], '""', '"') ELSE lower(trim(x)) END);
CREATE MACRO quote_literal(a) AS '''' || replace(a::varchar, '''', '''''') || '''';
CREATE MACRO tg_formatted(kind, a) AS CASE kind WHEN 'I' THEN quote_ident(a::varchar) WHEN 'L'
    THEN coalesce(quote_literal(a), 'NULL') ELSE coalesce(a::varchar, '') END;
CREATE MACRO tg_pieces(a) AS list_transform(regexp_split_to_array(a, '%[sIL]'), lambda x: replace(x, '%%', '%'));
CREATE MACRO tg_kinds(a) AS regexp_extract_all(a, '%([sIL])', 1);
CREATE MACRO tg_format(f) AS tg_pieces(f)[1],
    (f, a) AS tg_pieces(f)[1] || tg_formatted(tg_kinds(f)[1], a) || tg_pieces(f)[2],
    (f, a, b) AS tg_pieces(f)[1] || tg_formatted(tg_kinds(f)[1], a) || tg_pieces(f)[2] || tg_formatted(tg_kinds(f)[2], b)
        || tg_pieces(f)[3];
CREATE MACRO to_regclass(a) AS (SELECT tg_r.oid FROM tg_regclass tg_r
    WHERE tg_r.name = regexp_replace(a::varchar, ' *[.] *', '.'));
CREATE MACRO to_regtype(a) AS (SELECT tg_f.oid FROM tg_format tg_f WHERE tg_f.short = lower(a::varchar)
    OR tg_f.long = lower(a::varchar));
CREATE MACRO to_regproc(a) AS (SELECT coalesce(min(tg_p.oid), 0) FROM pg_proc tg_p
    WHERE tg_p.proname = replace(replace(a::varchar, 'pg_catalog.', ''), 'public.', ''))::bigint;
CREATE MACRO to_regprocedure(a) AS to_regproc(split_part(a::varchar, '(', 1));
CREATE MACRO regproc_name(a) AS (SELECT coalesce(max(tg_p.proname), '-') FROM pg_proc tg_p WHERE tg_p.oid = a);
CREATE MACRO pg_get_keywords() AS TABLE SELECT unnest([{_words(RESERVED)}]) AS word, 'R' AS catcode, 'reserved' AS catdesc
    UNION ALL SELECT unnest([{_words((JOINING | CONTEXTUAL) - RESERVED)}]), 'U', 'unreserved';
CREATE MACRO regclass_name(a) AS coalesce((SELECT tg_r.name FROM tg_regclass tg_r WHERE tg_r.oid = a AND tg_r.shown), a::varchar);
CREATE MACRO regtype_name(a) AS coalesce((SELECT tg_f.long || tg_f.brackets FROM tg_format tg_f WHERE tg_f.oid = a), a::varchar);
CREATE MACRO format_type(o, m) AS (SELECT tg_f.long || CASE
    WHEN m IS NULL OR m < 4 THEN ''
    WHEN tg_f.base = 1043 THEN '(' || (m - 4)::varchar || ')'
    WHEN tg_f.base = 1700 THEN '(' || ((m - 4) >> 16)::varchar || ',' || ((m - 4) & 65535)::varchar || ')'
    ELSE '' END || tg_f.brackets FROM tg_format tg_f WHERE tg_f.oid = o);
"""

VIEWS = f"""
CREATE VIEW pg_settings AS SELECT unnest(getvariable('tg_names')) AS name, unnest(getvariable('tg_values')) AS setting,
    NULL::varchar AS unit, 'Tidegate' AS category, ''::varchar AS short_desc, NULL::varchar AS extra_desc, 'user' AS context,
    'string' AS vartype, CASE WHEN unnest(getvariable('tg_values')) = unnest(getvariable('tg_defaults')) THEN 'default'
    ELSE 'session' END AS source, NULL::varchar AS min_val, NULL::varchar AS max_val, NULL::varchar[] AS enumvals,
    unnest(getvariable('tg_defaults')) AS boot_val, unnest(getvariable('tg_defaults')) AS reset_val,
    NULL::varchar AS sourcefile, NULL::integer AS sourceline, false AS pending_restart;
CREATE VIEW pg_database AS SELECT {DATABASE_OID}::bigint AS oid, getvariable('tg_database') AS datname,
    {OWNER}::bigint AS datdba, 6 AS encoding, 'c' AS datlocprovider, false AS datistemplate, true AS datallowconn,
    -1 AS datconnlimit, 0::bigint AS datlastsysoid, 0::bigint AS datfrozenxid, 0::bigint AS datminmxid,
    1663::bigint AS dattablespace, 'C.UTF-8' AS datcollate, 'C.UTF-8' AS datctype, NULL::varchar AS daticulocale,
    NULL::varchar AS datcollversion, NULL::varchar[] AS datacl;
CREATE VIEW pg_roles AS SELECT {OWNER}::bigint AS oid, getvariable('tg_user') AS rolname, false AS rolsuper,
    true AS rolinherit, false AS rolcreaterole, false AS rolcreatedb, true AS rolcanlogin, false AS rolreplication,
    -1 AS rolconnlimit, '********' AS rolpassword, NULL::timestamptz AS rolvaliduntil, false AS rolbypassrls,
    NULL::varchar[] AS rolconfig;
CREATE VIEW pg_authid AS SELECT * FROM pg_roles;
CREATE VIEW pg_user AS SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
    rolreplication AS userepl, rolbypassrls AS usebypassrls, rolpassword AS passwd, rolvaliduntil AS valuntil,
    rolconfig AS useconfig FROM pg_roles;
CREATE VIEW pg_tables AS SELECT 'public' AS schemaname, relname AS tablename, getvariable('tg_user') AS tableowner,
    NULL::varchar AS tablespace, relhasindex AS hasindexes, false AS hasrules, false AS hastriggers, false AS rowsecurity
    FROM pg_class WHERE relkind = 'r';
CREATE VIEW pg_views AS SELECT 'public' AS schemaname, c.relname AS viewname, getvariable('tg_user') AS viewowner,
    v.sql AS definition FROM pg_class c JOIN tg_views v ON v.oid = c.oid;
CREATE VIEW pg_stat_user_tables AS SELECT oid AS relid, 'public' AS schemaname, relname, reltuples::bigint AS n_live_tup
    FROM pg_class WHERE relkind = 'r';
CREATE VIEW pg_statio_user_tables AS SELECT oid AS relid, 'public' AS schemaname, relname FROM pg_class WHERE relkind = 'r';
CREATE VIEW pg_stat_activity AS SELECT {DATABASE_OID}::bigint AS datid, getvariable('tg_database') AS datname,
    getvariable('tg_pid')::integer AS pid, getvariable('tg_user') AS usename, ''::varchar AS application_name,
    'active' AS state, NULL::varchar AS query;
CREATE VIEW pg_timezone_names AS SELECT 'UTC' AS name, 'UTC' AS abbrev, false AS is_dst;
"""

INFORMATION = """
CREATE SCHEMA tg_is;
CREATE MACRO tg_is._pg_expandarray(a) AS unnest(list_transform(range(1, len(a) + 1), lambda k: {'x': a[k], 'n': k}));
CREATE VIEW tg_is.schemata AS SELECT getvariable('tg_database') AS catalog_name, nspname AS schema_name,
    getvariable('tg_user') AS schema_owner FROM pg_namespace;
CREATE VIEW tg_is.tables AS SELECT getvariable('tg_database') AS table_catalog, 'public' AS table_schema,
    relname AS table_name, CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
    NULL::varchar AS self_referencing_column_name, NULL::varchar AS reference_generation,
    NULL::varchar AS user_defined_type_catalog, NULL::varchar AS user_defined_type_schema,
    NULL::varchar AS user_defined_type_name, 'NO' AS is_insertable_into, 'NO' AS is_typed,
    NULL::varchar AS commit_action FROM pg_class WHERE relkind <> 'i';
CREATE VIEW tg_is.views AS SELECT getvariable('tg_database') AS table_catalog, 'public' AS table_schema,
    c.relname AS table_name, v.sql AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable,
    'NO' AS is_insertable_into FROM pg_class c JOIN tg_views v ON v.oid = c.oid;
CREATE VIEW tg_is.columns AS SELECT getvariable('tg_database') AS table_catalog, 'public' AS table_schema,
    c.relname AS table_name, a.attname AS column_name, a.attnum AS ordinal_position, d.adbin AS column_default,
    CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
    CASE WHEN f.brackets <> '' THEN 'ARRAY' ELSE f.long END AS data_type,
    CASE WHEN f.base = 1043 AND a.atttypmod >= 4 THEN a.atttypmod - 4 END AS character_maximum_length,
    CASE WHEN f.base IN (25, 1043) THEN 1073741824 END AS character_octet_length,
    CASE a.atttypid WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53
        WHEN 1700 THEN CASE WHEN a.atttypmod >= 4 THEN (a.atttypmod - 4) >> 16 ELSE 38 END END AS numeric_precision,
    CASE WHEN a.atttypid IN (21, 23, 20, 700, 701) THEN 2 WHEN a.atttypid = 1700 THEN 10 END AS numeric_precision_radix,
    CASE WHEN a.atttypid IN (21, 23, 20) THEN 0
        WHEN a.atttypid = 1700 THEN CASE WHEN a.atttypmod >= 4 THEN (a.atttypmod - 4) & 65535 ELSE 18 END END AS numeric_scale,
    CASE WHEN a.atttypid IN (1083, 1114, 1184, 1186) THEN 6 WHEN a.atttypid = 1082 THEN 0 END AS datetime_precision,
    NULL::varchar AS interval_type, NULL::varchar AS character_set_name, NULL::varchar AS collation_name,
    NULL::varchar AS domain_name, getvariable('tg_database') AS udt_catalog, 'pg_catalog' AS udt_schema,
    f.short AS udt_name, a.attnum::varchar AS dtd_identifier, 'NO' AS is_identity, NULL::varchar AS identity_generation,
    'NEVER' AS is_generated, NULL::varchar AS generation_expression, 'NO' AS is_updatable
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN tg_format f ON f.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum ORDER BY c.relname, a.attnum;
CREATE VIEW tg_is.table_privileges AS SELECT getvariable('tg_user') AS grantor, getvariable('tg_user') AS grantee,
    getvariable('tg_database') AS table_catalog, 'public' AS table_schema, relname AS table_name,
    'SELECT' AS privilege_type, 'NO' AS is_grantable, 'NO' AS with_hierarchy FROM pg_class WHERE relkind <> 'i';
CREATE VIEW tg_is.role_table_grants AS SELECT * FROM tg_is.table_privileges;
CREATE VIEW tg_is.information_schema_catalog_name AS SELECT getvariable('tg_database') AS catalog_name;
CREATE VIEW tg_is.enabled_roles AS SELECT getvariable('tg_user') AS role_name;
CREATE VIEW tg_is.applicable_roles AS SELECT getvariable('tg_user') AS grantee, getvariable('tg_user') AS role_name,
    'NO' AS is_grantable;
CREATE VIEW tg_is.character_sets AS SELECT NULL::varchar AS character_set_catalog, NULL::varchar AS character_set_schema,
    'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
    getvariable('tg_database') AS default_collate_catalog;
"""
_EMPTY_VIEWS = {
    "referential_constraints": "constraint_catalog constraint_schema constraint_name unique_constraint_catalog "
    "unique_constraint_schema unique_constraint_name match_option update_rule delete_rule",
    "check_constraints": "constraint_catalog constraint_schema constraint_name check_clause",
    "routines": "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name "
    "routine_type data_type routine_body routine_definition external_language",
    "parameters": "specific_catalog specific_schema specific_name ordinal_position parameter_mode parameter_name "
    "data_type",
    "sequences": "sequence_catalog sequence_schema sequence_name data_type start_value minimum_value maximum_value "
    "increment cycle_option",
    "triggers": "trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog "
    "event_object_schema event_object_table action_statement action_orientation action_timing",
    "column_privileges": "grantor grantee table_catalog table_schema table_name column_name privilege_type is_grantable",
    "collations": "collation_catalog collation_schema collation_name pad_attribute",
    "domains": "domain_catalog domain_schema domain_name data_type",
    "element_types": "object_catalog object_schema object_name object_type collection_type_identifier data_type",
}


def empty_views() -> str:
    """Returns the empty views of information_schema."""
    return "\n".join(
        f"CREATE VIEW tg_is.{name} AS SELECT {', '.join(f'NULL::varchar AS {column}' for column in columns.split())} WHERE false;"
        for name, columns in _EMPTY_VIEWS.items()
    )
