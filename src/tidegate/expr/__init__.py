"""Scalar expressions: their language, functions, evaluation over rows and pruning by statistics.

    from tidegate.expr.model import Column, build, show, types
    from tidegate.expr.evaluate import evaluate

    doubled = build.call("*", Column(0, types.INT8, "n"), build.literal(2, types.INT8))
    show(doubled)                                       # n * 2
    evaluate(doubled, [pa.array([1, None])]).values     # [2, NULL]

| sub-room | contents | rests on |
|---|---|---|
| `model` | types, trees, function declarations, outcomes | `tidegate.errors` |
| `primitives` | numpy and Arrow kernels without SQL meaning | `model` |
| `evaluate` | expressions over batches of rows | `primitives` |
| `domain` | what an expression may be in each part | `primitives` |
| `spark_sql` | expressions as Spark SQL | `primitives` |
| `functions` | every scalar function, declared once | all of these |

This room knows nothing of storage. Other rooms import from its sub-rooms; `tidegate.expr` itself offers no names.
"""
