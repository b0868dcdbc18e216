"""How a database is doing, from its metadata alone: values for programs, tables for people.

db.status().collections["orders"].rows      a number
print(db.status())                          tables of collections and sources
"""

from tidegate.statements.status.status import CollectionStatus, Status, contents, source_statuses, status

__all__ = ["CollectionStatus", "Status", "contents", "source_statuses", "status"]
