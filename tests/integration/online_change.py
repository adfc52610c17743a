"""The statements of gh-ost and pt-osc, in their order, against a table that is written to all the while."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pymysql

from tests.integration.binlog_shop import Shop

Change = tuple[str, dict[str, Any] | None, dict[str, Any] | None]
_TRY_AGAIN = {1205, 1213}  # lock wait timeout, deadlock: the tools' own reads hold locks


class Writer:
    """Writes to table t until told to stop, and keeps what each write changed as its own transaction saw it.

    Attributes:
        changes: op, row before and row after, in commit order.
    """

    def __init__(self, shop: Shop, seed: int):
        self._shop, self._random = shop, random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._error: BaseException | None = None
        self._ids = 1000
        self.changes: list[Change] = []

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def wait_for_row(self) -> None:
        """Return after a write that was begun after this call and left a row."""
        done = len(self.changes) + 1  # one may be under way
        deadline = time.monotonic() + 60
        while not any(after for _, _, after in self.changes[done:]):
            assert self._thread.is_alive(), self._error
            assert time.monotonic() < deadline, "no write in 60 s"
            time.sleep(0.01)

    def _run(self) -> None:
        connection = self._shop.connect()
        try:
            while not self._stop.is_set():
                try:
                    self._one(connection)
                except pymysql.err.OperationalError as error:
                    connection.rollback()
                    if error.args[0] not in _TRY_AGAIN:
                        raise
        except BaseException as error:  # noqa: BLE001 - raised where the test waits
            self._error = error
        finally:
            connection.close()

    def _one(self, connection: Any) -> None:
        with connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("BEGIN")
            op = self._random.choice(["c", "c", "u", "u", "d"])
            key = self._ids + 1 if op == "c" else self._random.randint(1, self._ids)
            cursor.execute(f"SELECT * FROM t WHERE id = {key} FOR UPDATE")
            before = cursor.fetchone()
            value = self._random.randint(1, 10**9)
            sql = {
                "c": f"INSERT INTO t (id, a) VALUES ({key}, {value})",
                "u": f"UPDATE t SET a = {value} WHERE id = {key}",
                "d": f"DELETE FROM t WHERE id = {key}",
            }
            cursor.execute(sql[op])
            cursor.execute(f"SELECT * FROM t WHERE id = {key}")
            after = cursor.fetchone()
            connection.commit()
        self._ids += op == "c"
        if before != after:
            self.changes.append((op, before, after))


def changes_in_turn(count: int) -> list[str]:
    """Return ALTER TABLE changes that leave (id, a) usable; each moves columns whose types do not tell them apart."""
    turns = ["ADD COLUMN n{} BIGINT NOT NULL DEFAULT {} FIRST"]
    for number in range(1, count):
        last = number - 1
        turns.append(
            [
                "ADD COLUMN n{} BIGINT NOT NULL DEFAULT {} AFTER id",
                f"CHANGE n{last} n{{}} BIGINT NOT NULL DEFAULT {{}} AFTER a",
                f"DROP COLUMN n{last}, ADD COLUMN n{{}} BIGINT UNSIGNED NOT NULL DEFAULT {{}} FIRST",
            ][number % 3]
        )
    return [turn.format(number, number) for number, turn in enumerate(turns)]


def pt_osc(shop: Shop, change: str) -> None:
    """Change table t as pt-online-schema-change does: triggers, copy by chunks, one RENAME of two tables."""
    connection = shop.connect()
    with connection.cursor() as cursor:

        def run(sql: str) -> None:
            _patiently(lambda: cursor.execute(sql))

        run("CREATE TABLE _t_new LIKE t")
        run(f"ALTER TABLE _t_new {change}")
        run("CREATE TRIGGER pt_osc_del AFTER DELETE ON t FOR EACH ROW DELETE IGNORE FROM _t_new WHERE id <=> OLD.id")
        run(
            "CREATE TRIGGER pt_osc_upd AFTER UPDATE ON t FOR EACH ROW BEGIN "
            "DELETE IGNORE FROM _t_new WHERE !(OLD.id <=> NEW.id) AND id <=> OLD.id; "
            "REPLACE INTO _t_new (id, a) VALUES (NEW.id, NEW.a); END"
        )
        run(
            "CREATE TRIGGER pt_osc_ins AFTER INSERT ON t FOR EACH ROW "
            "REPLACE INTO _t_new (id, a) VALUES (NEW.id, NEW.a)"
        )
        for low in range(0, 20_000, 500):
            run(
                "INSERT LOW_PRIORITY IGNORE INTO _t_new (id, a) SELECT id, a FROM t "
                f"WHERE id BETWEEN {low} AND {low + 499} LOCK IN SHARE MODE"
            )
        run("ANALYZE TABLE _t_new")
        cursor.fetchall()
        run(f"RENAME TABLE {shop.name}.t TO {shop.name}._t_old, `{shop.name}`.`_t_new` TO `{shop.name}`.`t`")
        run("DROP TABLE IF EXISTS _t_old")
        for name in ("del", "upd", "ins"):
            run(f"DROP TRIGGER IF EXISTS pt_osc_{name}")
    connection.close()


def gh_ost(shop: Shop, change: str) -> None:
    """Change table t as gh-ost does: ghost, changelog and sentry tables, a RENAME that waits for locked tables."""
    one, two = shop.connect(), shop.connect()
    with one.cursor() as locker, two.cursor() as renamer:

        def run(sql: str) -> None:
            _patiently(lambda: locker.execute(sql))

        run("DROP TABLE IF EXISTS _t_gho")
        run("DROP TABLE IF EXISTS _t_ghc")
        run(
            "CREATE /* gh-ost */ TABLE `_t_ghc` (id BIGINT AUTO_INCREMENT, hint VARCHAR(64) NOT NULL, "
            "value VARCHAR(4096) NOT NULL, PRIMARY KEY(id), UNIQUE KEY hint_uidx(hint)) AUTO_INCREMENT=256"
        )
        run(f"CREATE /* gh-ost */ TABLE `{shop.name}`.`_t_gho` LIKE `{shop.name}`.`t`")
        run(f"ALTER /* gh-ost */ TABLE `{shop.name}`.`_t_gho` {change}")
        run("INSERT /* gh-ost */ INTO _t_ghc (hint, value) VALUES ('state', 'GhostTableMigrated')")
        for low in range(0, 20_000, 500):
            run(
                "INSERT /* gh-ost */ IGNORE INTO _t_gho (id, a) SELECT id, a FROM t "
                f"WHERE id BETWEEN {low} AND {low + 499} LOCK IN SHARE MODE"
            )
        run("CREATE /* gh-ost */ TABLE _t_del (id INT AUTO_INCREMENT PRIMARY KEY) COMMENT='ghost-cut-over-sentry'")
        run("LOCK /* gh-ost */ TABLES t WRITE, _t_del WRITE, _t_gho WRITE")
        # The tool applies what its own reading of the log brings; here it is taken from the locked table at once.
        run("DELETE FROM _t_gho")
        run("INSERT INTO _t_gho (id, a) SELECT id, a FROM t")
        home = f"`{shop.name}`"
        sql = f"RENAME /* gh-ost */ TABLE {home}.`t` TO {home}.`_t_del`, {home}.`_t_gho` TO {home}.`t`"
        waiting = threading.Thread(target=lambda: renamer.execute(sql))
        waiting.start()
        while not shop.sql(
            "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata%' "
            f"AND INFO LIKE 'RENAME%{shop.name}%'"
        ):
            time.sleep(0.01)
        run("DROP /* gh-ost */ TABLE IF EXISTS _t_del")
        run("UNLOCK TABLES")
        waiting.join()
        run("DROP /* gh-ost */ TABLE IF EXISTS _t_ghc")
        run("DROP /* gh-ost */ TABLE IF EXISTS _t_del")
    one.close()
    two.close()


def _patiently(run: Callable[[], Any]) -> None:
    while True:
        try:
            run()
        except pymysql.err.OperationalError as error:
            if error.args[0] not in _TRY_AGAIN:
                raise
        else:
            return
