"""The tables of pg_catalog that clients read, and the types of their columns.

    FILLED["pg_class"]          {"oid": "bigint", "relname": "varchar", …}

A letter stands for the type of a column. Tables about things that a lake lacks (triggers, sequences, …)
exist and are empty, so a client that asks for the triggers of a collection sees none.

| letter | type | |
|---|---|---|
| o | bigint | an OID |
| t | varchar | a name, a text, a letter |
| i | integer | |
| b | boolean | |
| f | double | |
| T, I | varchar[], integer[] | |
| z | timestamptz | |
"""

from __future__ import annotations

_LETTERS = {
    "o": "bigint",
    "t": "varchar",
    "i": "integer",
    "b": "boolean",
    "f": "double",
    "T": "varchar[]",
    "I": "integer[]",
    "z": "timestamptz",
}

_FILLED = """
pg_namespace    o:oid t:nspname o:nspowner T:nspacl
pg_class        o:oid t:relname o:relnamespace o:reltype o:reloftype o:relowner o:relam o:relfilenode o:reltablespace
                i:relpages f:reltuples i:relallvisible o:reltoastrelid b:relhasindex b:relisshared t:relpersistence
                t:relkind i:relnatts i:relchecks b:relhasrules b:relhastriggers b:relhassubclass b:relrowsecurity
                b:relforcerowsecurity b:relispopulated t:relreplident b:relispartition o:relrewrite o:relfrozenxid
                o:relminmxid T:relacl T:reloptions t:relpartbound b:relhasoids
pg_attribute    o:attrelid t:attname o:atttypid i:attstattarget i:attlen i:attnum i:attndims i:attcacheoff i:atttypmod
                b:attbyval t:attalign t:attstorage t:attcompression b:attnotnull b:atthasdef b:atthasmissing
                t:attidentity t:attgenerated b:attisdropped b:attislocal i:attinhcount o:attcollation T:attacl
                T:attoptions T:attfdwoptions t:attmissingval
pg_attrdef      o:oid o:adrelid i:adnum t:adbin t:adsrc
pg_type         o:oid t:typname o:typnamespace o:typowner i:typlen b:typbyval t:typtype t:typcategory b:typispreferred
                b:typisdefined t:typdelim o:typrelid o:typsubscript o:typelem o:typarray o:typinput o:typoutput
                o:typreceive o:typsend t:typalign t:typstorage b:typnotnull o:typbasetype i:typtypmod i:typndims
                o:typcollation t:typdefaultbin t:typdefault T:typacl
pg_am           o:oid t:amname o:amhandler t:amtype
pg_collation    o:oid t:collname o:collnamespace o:collowner t:collprovider b:collisdeterministic i:collencoding
                t:collcollate t:collctype t:colliculocale t:collversion
pg_proc         o:oid t:proname o:pronamespace o:proowner o:prolang f:procost f:prorows o:provariadic t:prokind b:prosecdef
                b:proleakproof b:proisstrict b:proretset t:provolatile t:proparallel i:pronargs i:pronargdefaults
                o:prorettype I:proargtypes I:proallargtypes T:proargmodes T:proargnames t:prosrc t:probin T:proconfig
                t:proargdefaults o:prosupport I:protrftypes t:arguments t:result t:description
                T:proacl b:proisagg b:proiswindow
pg_language     o:oid t:lanname o:lanowner b:lanispl b:lanpltrusted
pg_tablespace   o:oid t:spcname o:spcowner T:spcacl T:spcoptions
pg_index        o:indexrelid o:indrelid i:indnatts i:indnkeyatts b:indisunique b:indnullsnotdistinct b:indisprimary
                b:indisexclusion b:indimmediate b:indisclustered b:indisvalid b:indcheckxmin b:indisready b:indislive
                b:indisreplident I:indkey I:indcollation I:indclass I:indoption t:indexprs t:indpred
pg_constraint   o:oid t:conname o:connamespace t:contype b:condeferrable b:condeferred b:convalidated o:conrelid o:contypid
                b:conenforced o:conindid o:conparentid o:confrelid t:confupdtype t:confdeltype t:confmatchtype b:conislocal
                i:coninhcount b:connoinherit I:conkey I:confkey I:conpfeqop I:conppeqop I:conffeqop I:confdelsetcols
                I:conexclop t:conbin
pg_description  o:objoid o:classoid i:objsubid t:description
"""
_EMPTY = """
pg_shdescription o:objoid o:classoid t:description
pg_inherits     o:inhrelid o:inhparent i:inhseqno b:inhdetachpending
pg_sequence     o:seqrelid o:seqtypid o:seqstart o:seqincrement o:seqmax o:seqmin o:seqcache b:seqcycle
pg_trigger      o:oid o:tgrelid o:tgparentid t:tgname o:tgfoid i:tgtype t:tgenabled b:tgisinternal o:tgconstrrelid
                o:tgconstrindid o:tgconstraint b:tgdeferrable b:tginitdeferred i:tgnargs I:tgattr t:tgargs t:tgqual
                t:tgoldtable t:tgnewtable
pg_rewrite      o:oid t:rulename o:ev_class t:ev_type t:ev_enabled b:is_instead t:ev_qual t:ev_action
pg_policy       o:oid t:polname o:polrelid t:polcmd b:polpermissive I:polroles t:polqual t:polwithcheck
pg_statistic_ext o:oid o:stxrelid t:stxname o:stxnamespace o:stxowner i:stxstattarget I:stxkeys T:stxkind t:stxexprs
pg_publication  o:oid t:pubname o:pubowner b:puballtables b:pubinsert b:pubupdate b:pubdelete b:pubtruncate b:pubviaroot
pg_publication_rel o:oid o:prpubid o:prrelid t:prqual I:prattrs
pg_publication_namespace o:oid o:pnpubid o:pnnspid
pg_subscription o:oid o:subdbid t:subname o:subowner b:subenabled
pg_opclass      o:oid o:opcmethod t:opcname o:opcnamespace o:opcowner o:opcfamily o:opcintype b:opcdefault o:opckeytype
pg_operator     o:oid t:oprname o:oprnamespace o:oprowner t:oprkind o:oprleft o:oprright o:oprresult o:oprcode
pg_enum         o:oid o:enumtypid f:enumsortorder t:enumlabel
pg_range        o:rngtypid o:rngsubtype o:rngmultitypid o:rngcollation o:rngsubopc
pg_auth_members o:roleid o:member o:grantor b:admin_option
pg_extension    o:oid t:extname o:extowner o:extnamespace b:extrelocatable t:extversion I:extconfig T:extcondition
pg_foreign_table o:ftrelid o:ftserver T:ftoptions
pg_foreign_server o:oid t:srvname o:srvowner o:srvfdw t:srvtype t:srvversion T:srvacl T:srvoptions
pg_foreign_data_wrapper o:oid t:fdwname o:fdwowner T:fdwoptions
pg_event_trigger o:oid t:evtname t:evtevent o:evtowner t:evtenabled
pg_depend       o:classid o:objid i:objsubid o:refclassid o:refobjid i:refobjsubid t:deptype
pg_shdepend     o:dbid o:classid o:objid i:objsubid o:refclassid o:refobjid t:deptype
pg_partitioned_table o:partrelid t:partstrat i:partnatts o:partdefid I:partattrs I:partclass t:partexprs
pg_indexes      t:schemaname t:tablename t:indexname t:tablespace t:indexdef
pg_matviews     t:schemaname t:matviewname t:matviewowner t:tablespace b:hasindexes b:ispopulated t:definition
pg_locks        t:locktype o:database o:relation i:pid t:mode b:granted
pg_prepared_statements t:name t:statement b:from_sql
pg_cursors      t:name t:statement
pg_cast         o:oid o:castsource o:casttarget o:castfunc t:castcontext t:castmethod
pg_conversion   o:oid t:conname
pg_aggregate    o:aggfnoid t:aggkind
pg_db_role_setting o:setdatabase o:setrole T:setconfig
pg_seclabel     o:objoid t:label
pg_default_acl  o:oid o:defaclrole o:defaclnamespace t:defaclobjtype T:defaclacl
pg_user_mapping o:oid o:umuser o:umserver T:umoptions
pg_stat_replication i:pid t:usename t:application_name t:state
pg_replication_slots t:slot_name t:plugin t:slot_type o:datoid t:database b:active
pg_stat_progress_vacuum i:pid o:datid t:datname o:relid t:phase
pg_amop         o:oid o:amopfamily o:amoplefttype o:amoprighttype i:amopstrategy t:amoppurpose o:amopopr o:amopmethod
pg_opfamily     o:oid o:opfmethod t:opfname o:opfnamespace o:opfowner
pg_parameter_acl o:oid t:parname T:paracl
pg_rules        t:schemaname t:tablename t:rulename t:definition
pg_sequences    t:schemaname t:sequencename t:sequenceowner o:start_value o:last_value
pg_policies     t:schemaname t:tablename t:policyname t:permissive T:roles t:cmd
"""
VIEWS = frozenset(
    (
        "pg_tables", "pg_views", "pg_database", "pg_roles", "pg_user", "pg_authid", "pg_settings", "pg_stat_activity",
        "pg_stat_user_tables", "pg_statio_user_tables", "pg_timezone_names",
    )
)  # fmt: skip
"""Tables that `views.py` makes of the others, or of what is known of the client."""
INFORMATION = frozenset(
    (
        "tables", "columns", "schemata", "views", "table_constraints", "key_column_usage", "referential_constraints",
        "constraint_column_usage", "check_constraints", "routines", "parameters", "sequences", "triggers",
        "table_privileges", "column_privileges", "role_table_grants", "character_sets", "collations",
        "information_schema_catalog_name", "enabled_roles", "applicable_roles", "domains", "element_types",
    )
)  # fmt: skip


def _read(text: str) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    name = ""
    for word in text.split():
        letter, is_column, column = word.partition(":")
        if not is_column:
            name = word
            tables[name] = {}
        else:
            tables[name][column] = _LETTERS[letter]
    return tables


FILLED, EMPTY = _read(_FILLED), _read(_EMPTY)
TABLES = frozenset((*FILLED, *EMPTY, *VIEWS))
POSTGRES_OIDS = {
    "pg_class": 1259, "pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_namespace": 2615,
    "pg_constraint": 2606, "pg_attrdef": 2604, "pg_index": 2610, "pg_description": 2609, "pg_database": 1262,
    "pg_trigger": 2620, "pg_rewrite": 2618, "pg_extension": 3079,
}  # fmt: skip
"""PostgreSQL's own OIDs of catalog tables: descriptions refer to them."""
