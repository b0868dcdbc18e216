"""Spark sessions and the Java runtime that they need.

    session()                      the active session, or a new one with master local[*]
    session("local[2]")            a new one with this master, if none is active
    prepare()                      sets JAVA_HOME and PYSPARK_PYTHON, for users who build a session themselves

| module | |
|---|---|
| `sessions.py` | finds or starts a session; sessions of ours beside the user's |
| `java.py` | finds a Java runtime of version 17 or newer |

Depends on pyspark and nothing of ours but `errors`.
"""

from tidegate.spark.session.java import java_home
from tidegate.spark.session.sessions import prepare, session, sibling_session, use_session, user_session

__all__ = ["java_home", "prepare", "session", "sibling_session", "use_session", "user_session"]
