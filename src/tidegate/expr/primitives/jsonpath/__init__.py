"""SQL/JSON path expressions, `$.items[*] ? (@.price > 10)`: syntax, parsing and execution.

| supported | refused |
|---|---|
| lax and strict, `$`, `@`, `$name`, `.key`, `.*`, `.**`, `.**{1 to 2}`, `[*]`, `[1]`, `[0 to last]` | |
| filters with `==`, `!=`, `<>`, `<`, `<=`, `>`, `>=`, `starts with`, `like_regex` | the flags q and x |
| `&&`, `||`, `!`, `exists`, `is unknown` | |
| `+`, `-`, `*`, `/`, `%` | |
| `.type()`, `.size()`, `.double()`, `.abs()`, `.floor()`, `.ceiling()` | `.datetime()`, `.keyvalue()` |
"""
