"""SQL that tests run on their servers."""

from __future__ import annotations

from typing import Any, Final

from pymysql.connections import Connection
from pymysql.err import OperationalError

from databus.demo.shop import create_shop

_LOCK_WAIT_TIMEOUT: Final = 1205
_DROPS: Final = 3


def run_sql(connection: Connection[Any], *statements: str) -> list[tuple[Any, ...]]:
    """Run statements one after the other; return the rows of the last."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def drop_database(connection: Connection[Any], name: str) -> None:
    """Drop a database; once more where MariaDB waited for a lock in vain, with no other session there.

    Seen once, for innodb_lock_wait_timeout (50 s), and not explained; its drop locks `mysql.innodb_table_stats`, which
    InnoDB's own thread may hold that counts a table anew.
    """
    for left in reversed(range(_DROPS)):
        try:
            run_sql(connection, f"DROP DATABASE IF EXISTS {name}")
        except OperationalError as error:
            if error.args[0] != _LOCK_WAIT_TIMEOUT or not left:
                raise
        else:
            return


def fresh_shop(connection: Connection[Any]) -> str:
    """Make the database `shop` anew; return the place in the log before it, "file:position"."""
    drop_database(connection, "shop")
    ((file, position, *_),) = run_sql(connection, "SHOW MASTER STATUS")
    create_shop(connection)
    return f"{file}:{position}"
