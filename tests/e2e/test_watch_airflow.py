"""`databus watch` beside a real Airflow whose processes are killed and whose metadata database is destroyed.

A mail server and an HTTP receiver are told once of each part that died, and once when it is back.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from databus import AlertWhen, Email, Flow, Kafka, MysqlBinlog, Webhook
from tests.e2e.airflow_world import AirflowWorld, until
from tests.integration.conftest import World
from tests.integration.test_watch import Watching, first_round, watching
from tests.unit.observe.receivers import Hooks, Mailbox, http_receiver, smtp_sink

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

KILLED = {"scheduler": "scheduler", "triggerer": "triggerer", "dag-processor": "dag_processor"}
"""The sandbox's names of processes → Airflow's names of them."""
FLOW = Flow(
    name="e2e_watched",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",), start="latest"),
    sinks=(Kafka(conn_id="kafka_east", topic="e2e_watched"),),
    alerts=(
        AlertWhen(),
        Email(to="ops@example.com", conn_id="alerts_mail", kinds=("airflow",)),
        Webhook(conn_id="alerts_hook", kinds=("airflow",)),
    ),
)


@contextmanager
def destroyed(database: Path) -> Iterator[None]:
    """Let an SQLite database, its log and that one's index hold nothing that SQLite can read until the block ends."""
    files = [database, *(database.with_name(database.name + suffix) for suffix in ("-wal", "-shm"))]
    contents = {file: file.read_bytes() for file in files if file.exists()}
    for file, content in contents.items():
        with file.open("r+b") as opened:  # the same file: a server that has it open must see it too
            opened.write(b"\xff" * len(content))
    try:
        with pytest.raises(sqlite3.DatabaseError), sqlite3.connect(database) as probe:
            probe.execute("SELECT COUNT(*) FROM job")
        probe.close()
        yield
    finally:
        for file, content in contents.items():
            with file.open("r+b" if file.exists() else "wb") as opened:
                opened.write(content)
                opened.truncate()


class Receivers:
    """Where alerts go, and what was told there."""

    def __init__(self, mailbox: Mailbox, hooks: Hooks):
        self.mailbox, self.hooks = mailbox, hooks

    @property
    def environment(self) -> dict[str, str]:
        smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": self.mailbox.port}
        http = {"conn_type": "http", "host": "127.0.0.1", "port": self.hooks.port, "schema": "http"}
        extra = {"disable_ssl": True, "disable_tls": True}
        return {
            "AIRFLOW_CONN_ALERTS_MAIL": json.dumps({**smtp, "extra": extra}),
            "AIRFLOW_CONN_ALERTS_HOOK": json.dumps(http),
        }

    def posted(self) -> Counter[tuple[str, str]]:
        return Counter((posted.body["subject"], posted.body["event"]) for posted in self.hooks.requests)

    def knows(self, event: str, *parts: str) -> None:
        until(f"{', '.join(parts)} {event}", lambda: all((part, event) in self.posted() for part in parts))


def more_rounds(watch: Watching) -> None:
    seen = watch.samples()["databus_watch_rounds_total", ""]
    until("more rounds", lambda: watch.samples()["databus_watch_rounds_total", ""] >= seen + 3)


def test_each_part_that_dies_is_told_once_and_its_return_once(airflow: AirflowWorld, tmp_path: Path) -> None:
    lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({FLOW.to_json()!r})")
    (tmp_path / "e2e_watched.py").write_text("\n".join(lines))
    database = next((airflow.home / "airflow").rglob("airflow.db"))
    address = f"http://{airflow.sandbox.address('airflow')}"
    with ExitStack() as stack:
        told = Receivers(stack.enter_context(smtp_sink()), stack.enter_context(http_receiver()))
        world = World(airflow.sandbox, airflow.home, told.environment)
        stack.callback(airflow.sandbox.up, ("airflow",))  # for the tests that follow, whatever happens here
        watch = stack.enter_context(watching(world, tmp_path, "--airflow", address))
        until("the first round", lambda: first_round(watch))
        more_rounds(watch)
        assert not told.posted()

        for process in KILLED:
            airflow.sandbox.kill("airflow", process)
        told.knows("raised", *KILLED.values())
        with destroyed(database):
            told.knows("raised", "metadatabase")
            more_rounds(watch)
            assert watch.samples()["databus_airflow_healthy", 'component="metadatabase"'] == 0
        told.knows("recovered", "metadatabase")
        more_rounds(watch)
        assert set(told.posted()) == {
            *((part, "raised") for part in (*KILLED.values(), "metadatabase")),
            ("metadatabase", "recovered"),
        }

        airflow.sandbox.up(("airflow",))
        told.knows("recovered", *KILLED.values())
        more_rounds(watch)
        until("mails as well", lambda: len(told.mailbox.mails) >= len(told.hooks.requests))
    alerts = told.posted()
    assert set(alerts.values()) == {1}, alerts
    assert {part for part, event in alerts if event == "raised"} == {
        part for part, event in alerts if event != "raised"
    }
    subjects = [str(mail["Subject"]) for mail in told.mailbox.mails]
    assert len(subjects) == len(told.hooks.requests)
    assert sum("Airflow's scheduler is unhealthy, last seen" in subject for subject in subjects) == 1
    assert sum("Airflow's scheduler is healthy" in subject for subject in subjects) == 1
