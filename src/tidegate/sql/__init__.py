"""SQL text → statements → typed expressions and plans.

    lex.py, cursor.py → scalar.py (special.py, typename.py), select.py, source.py → grammar.py   text → trees
    syntax.py, statement.py                            the trees: queries and expressions; statements
    catalog.py, scope.py, literal.py, label.py → express.py → bind.py, values.py    trees → plans

Start with `grammar.statements(sql)` and `bind.query(query, catalog, now_ms)`; tests with `bind.expression`.
"""
