"""JSON operators and functions with what a real PostgreSQL 15 gives (spaces and trailing zeros aside).

A case is an operator or function, its arguments as (type, text), and the result as text: JSON in canonical
form, None for NULL, or an `Error` with PostgreSQL's message.
"""

from typing import NamedTuple


class Error(str):
    """The message of a failed row."""

    __slots__ = ()


class Case(NamedTuple):
    name: str
    args: tuple[tuple[str, str | None], ...]
    result: str | None


def _cases(name: str, types: tuple[str, ...], *rows: tuple[str | None, ...]) -> list[Case]:
    return [Case(name, tuple(zip(types, row[:-1], strict=True)), row[-1]) for row in rows]


DOCUMENT = (
    '{"a": {"b": [1, "two", null, {"c": 2.50}]}, "": 0, "0": "zero", "n": null, "q\\"k": 1, "t~/": true}'
)

CASES = [
    *_cases(
        "->",
        ("jsonb", "text"),
        (DOCUMENT, "a", '{"b":[1,"two",null,{"c":2.5}]}'),
        (DOCUMENT, "", "0"),
        (DOCUMENT, "0", '"zero"'),
        (DOCUMENT, "n", "null"),
        (DOCUMENT, 'q"k', "1"),
        (DOCUMENT, "t~/", "true"),
        (DOCUMENT, "absent", None),
        (DOCUMENT, None, None),
        (None, "a", None),
        ("[1, 2]", "0", None),
        ("7", "a", None),
        ('{"a.b": 1}', "a.b", "1"),
        ('{"$": 1, "*": 2}', "*", "2"),
        ('{"a": 1e-7}', "a", "0.0000001"),
        ('{"a": 1.2345678901234567891}', "a", "1.2345678901234567891"),
        ('{"a": 123456789012345678901234567890.5}', "a", "123456789012345678901234567890.5"),
        ('{"a": {"b": 0.1234567890123456789}}', "a", '{"b":0.1234567890123456789}'),
        ('{"a": "\\u001f"}', "a", '"\\u001f"'),
    ),
    *_cases(
        "->",
        ("jsonb", "int4"),
        ("[10, 20, 30]", "0", "10"),
        ("[10, 20, 30]", "-1", "30"),
        ("[10, 20, 30]", "-4", None),
        ("[10, 20, 30]", "3", None),
        ("[null]", "0", "null"),
        ('{"0": 1}', "0", None),
    ),
    *_cases(
        "->>",
        ("jsonb", "text"),
        ('{"a": "x \\"y\\" \\n"}', "a", 'x "y" \n'),
        ('{"a": null}', "a", None),
        ('{"a": true}', "a", "true"),
        ('{"a": 100000}', "a", "100000"),
        ('{"a": 1e5}', "a", "100000"),
        ('{"a": 1e-7}', "a", "0.0000001"),
        ('{"a": 12345678901234567890123}', "a", "12345678901234567890123"),
        ('{"a": [1]}', "a", "[1]"),
        ('{"a": "null"}', "a", "null"),
    ),
    *_cases("->>", ("jsonb", "int4"), ('["x", 2]', "0", "x"), ('["x", 2]', "-1", "2"), ('"x"', "1", None)),
    *_cases(
        "#>",
        ("jsonb", "text[]"),
        (DOCUMENT, "{a,b,1}", '"two"'),
        (DOCUMENT, "{a,b,-1,c}", "2.5"),
        (DOCUMENT, "{0}", '"zero"'),
        (DOCUMENT, "{a,b,01}", '"two"'),
        (DOCUMENT, "{a,b,+1}", '"two"'),
        (DOCUMENT, "{a,b,1x}", None),
        (DOCUMENT, "{a,b,99999999999}", None),
        (DOCUMENT, "{a,NULL}", None),
        (DOCUMENT, "{n}", "null"),
        ("[1, 2]", "{}", "[1,2]"),
        ("5", "{0}", None),
        ('{"-1": 5}', "{-1}", "5"),
    ),
    *_cases(
        "#>>",
        ("jsonb", "text[]"),
        (DOCUMENT, "{a,b,1}", "two"),
        (DOCUMENT, "{a,b,2}", None),
        ('"x"', "{}", "x"),
        ("null", "{}", None),
    ),
    *_cases(
        "jsonb_extract_path",
        ("jsonb", "text", "text", "text"),
        (DOCUMENT, "a", "b", "-4", "1"),
        (DOCUMENT, "a", "x", "y", None),
    ),
    *_cases(
        "jsonb_extract_path_text",
        ("jsonb", "text"),
        (DOCUMENT, "0", "zero"),
        ('["x"]', "0", "x"),
        (DOCUMENT, None, None),
    ),
    *_cases(
        "?",
        ("jsonb", "text"),
        ('{"a": null}', "a", "true"),
        ('{"a": 1}', "b", "false"),
        ('["a", 1]', "a", "true"),
        ('["a", 1]', "1", "false"),
        ('"a"', "a", "true"),
        ('{"0": 1}', "0", "true"),
        ("[5]", "0", "false"),
        ("5", "5", "false"),
        ('["\\u001f"]', "\x1f", "true"),
        ('{"a": 1}', None, None),
    ),
    *_cases(
        "?|",
        ("jsonb", "text[]"),
        ('{"a": 1}', "{b,a}", "true"),
        ('{"a": 1}', "{NULL,b}", "false"),
        ('["a"]', "{}", "false"),
    ),
    *_cases(
        "?&",
        ("jsonb", "text[]"),
        ('{"a": 1, "b": 2}', "{b,a}", "true"),
        ('{"a": 1}', "{NULL,a}", "true"),
        ('{"a": 1}', "{a,b}", "false"),
        ("[]", "{}", "true"),
    ),
    *_cases(
        "@>",
        ("jsonb", "jsonb"),
        ('{"a": 1, "b": {"c": [1, 2, {"d": 3}]}}', '{"b": {"c": [{"d": 3}, 2]}}', "true"),
        ('{"a": 1}', '{"a": 2}', "false"),
        ('{"a": 1}', '{"b": 1}', "false"),
        ('{"a": 1}', "{}", "true"),
        ("[1, 2]", "2", "true"),
        ("[[2]]", "2", "false"),
        ('{"a": ["b"]}', '{"a": "b"}', "false"),
        ("[1]", "[1, 1]", "true"),
        ("[1.0]", "[1]", "true"),
        ("1", "[1]", "false"),
        ("[]", "{}", "false"),
        ("{}", "[]", "false"),
        ("[[1, 2], 3]", "[[]]", "true"),
        ("[[1, 2], 3]", "[[1], 3]", "true"),
        ('"x"', '"x"', "true"),
        ("true", "1", "false"),
        ("[1.2345678901234567891]", "[1.2345678901234567891]", "true"),
        ("[1.2345678901234567891]", "[1.2345678901234567]", "false"),
    ),
    *_cases(
        "<@",
        ("jsonb", "jsonb"),
        ('{"a": 1}', '{"a": 1, "b": 2}', "true"),
        ("[3]", "[1, 2]", "false"),
        ("1", "[1]", "true"),
    ),
    *_cases(
        "||",
        ("jsonb", "jsonb"),
        ('{"a": 1, "b": 2}', '{"b": 3, "": 4}', '{"":4,"a":1,"b":3}'),
        ("{}", "{}", "{}"),
        ('{"a": 1}', "{}", '{"a":1}'),
        ("[1]", "[2, 3]", "[1,2,3]"),
        ("[]", "[]", "[]"),
        ("[]", "1", "[1]"),
        ("1", "2", "[1,2]"),
        ("1", '{"a": 1}', '[1,{"a":1}]'),
        ('{"a": 1}', "[2]", '[{"a":1},2]'),
        ("null", "null", "[null,null]"),
        ("null", None, None),
    ),
    *_cases(
        "-",
        ("jsonb", "text"),
        ('{"a": 1, "b": {"a": null}}', "a", '{"b":{"a":null}}'),
        ('{"a": 1}', "x", '{"a":1}'),
        ('["a", "b", "a", 1]', "a", '["b",1]'),
        ('{"a": 1, "b": 1.2345678901234567891}', "a", '{"b":1.2345678901234567891}'),
        ("{}", "a", "{}"),
        ("[]", "a", "[]"),
        ('{"a": 1}', None, None),
        ('"a"', "a", Error("cannot delete from scalar")),
    ),
    *_cases(
        "-",
        ("jsonb", "int4"),
        ('["a", "b", "c"]', "1", '["a","c"]'),
        ('["a", "b", "c"]', "-1", '["a","b"]'),
        ('["a", "b", "c"]', "5", '["a","b","c"]'),
        ('["a", "b", "c"]', "-5", '["a","b","c"]'),
        ("[1]", "0", "[]"),
        ('{"a": 1}', "0", Error("cannot delete from object using integer index")),
        ("1", "0", Error("cannot delete from scalar")),
    ),
    *_cases(
        "-",
        ("jsonb", "text[]"),
        ('{"a": 1, "b": 2, "c": 3}', "{a,c,NULL}", '{"b":2}'),
        ('["a", "b", "c"]', "{a,c}", '["b"]'),
        ('{"a": 1}', "{}", '{"a":1}'),
        ("1", "{a}", Error("cannot delete from scalar")),
    ),
    *_cases(
        "jsonb_typeof",
        ("jsonb",),
        *(
            (d, t)
            for d, t in [
                ("{}", "object"),
                ("[]", "array"),
                ('""', "string"),
                ("-1.5", "number"),
                ("true", "boolean"),
            ]
        ),
        ("false", "boolean"),
        ("null", "null"),
        (None, None),
    ),
    *_cases(
        "jsonb_array_length",
        ("jsonb",),
        ("[1, [2, 3], null]", "3"),
        ("[]", "0"),
        (None, None),
        ("{}", Error("cannot get array length of a non-array")),
        ("1", Error("cannot get array length of a scalar")),
    ),
    *_cases(
        "jsonb_strip_nulls",
        ("jsonb",),
        ('{"a": null, "b": [null, {"c": null}], "d": {"e": null}}', '{"b":[null,{}],"d":{}}'),
        ('{"a": 1, "b": null}', '{"a":1}'),
        ('{"f": "x\\":null,", "g": null, "h\\"": null, "i": "\\\\"}', '{"f":"x\\":null,","i":"\\\\"}'),
        ("null", "null"),
        ("[null]", "[null]"),
        ('{"a": "null"}', '{"a":"null"}'),
    ),
]

CASTS = [
    *_cases(
        "int4",
        ("jsonb",),
        ("12", "12"),
        ("2.5", "3"),
        ("-2.5", "-3"),
        ("2.4999999999999999999999", "2"),
        ("1e3", "1000"),
        (None, None),
        ("2147483648", Error("integer out of range")),
        ("1e50", Error("integer out of range")),
        ('"1"', Error("cannot cast jsonb string to type integer")),
        ("null", Error("cannot cast jsonb null to type integer")),
        ("true", Error("cannot cast jsonb boolean to type integer")),
    ),
    *_cases("int2", ("jsonb",), ("-7", "-7"), ("99999", Error("smallint out of range"))),
    *_cases(
        "int8",
        ("jsonb",),
        ("9223372036854775807", "9223372036854775807"),
        ("1e19", Error("bigint out of range")),
    ),
    *_cases(
        "numeric",
        ("jsonb",),
        ("1.50", "1.5"),
        ("-0.000001", "-0.000001"),
        ("[]", Error("cannot cast jsonb array to type numeric")),
        ("{}", Error("cannot cast jsonb object to type numeric")),
    ),
    *_cases(
        "float8",
        ("jsonb",),
        ("0.1", "0.1"),
        ("1e300", "1e+300"),
        ('"x"', Error("cannot cast jsonb string to type double precision")),
    ),
    *_cases("float4", ("jsonb",), ("0.1", "0.1"), ("[]", Error("cannot cast jsonb array to type real"))),
    *_cases(
        "bool",
        ("jsonb",),
        ("true", "true"),
        ("false", "false"),
        (None, None),
        ("1", Error("cannot cast jsonb numeric to type boolean")),
    ),
    *_cases("text", ("jsonb",), ('"x"', '"x"'), ("1.5", "1.5"), (None, None)),
    *_cases(
        "jsonb",
        ("text",),
        (
            ' { "b" : 1 , "aa" : 2 , "c" : 3 , "é" : 4 , "zz": 5, "b": [ ] } ',
            '{"b":[],"c":3,"aa":2,"zz":5,"é":4}',
        ),
        ("-0", "0"),
        ("1e5", "100000"),
        ('"\\u00e9\\/\\u001F\\ud83d\\ude00"', '"é/\\u001f😀"'),
        ('"\\u0000"', Error("unsupported Unicode escape sequence")),
        ('"\\ud800"', Error("invalid input syntax for type json")),
        ("", Error("invalid input syntax for type json")),
        ("[1,]", Error("invalid input syntax for type json")),
        ("NaN", Error("invalid input syntax for type json")),
        ("[01]", Error("invalid input syntax for type json")),
        ("'x'", Error("invalid input syntax for type json")),
        ('"a\tb"', Error("invalid input syntax for type json")),
        ("1e200000", Error("value overflows numeric format")),
    ),
]
