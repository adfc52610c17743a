"""SQL that tests run on their servers."""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection

from databus.demo.shop import create_shop


def run_sql(connection: Connection[Any], *statements: str) -> list[tuple[Any, ...]]:
    """Run statements one after the other; return the rows of the last."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def fresh_shop(connection: Connection[Any]) -> str:
    """Make the database `shop` anew; return the place in the log before it, "file:position"."""
    run_sql(connection, "DROP DATABASE IF EXISTS shop")
    ((file, position, *_),) = run_sql(connection, "SHOW MASTER STATUS")
    create_shop(connection)
    return f"{file}:{position}"
