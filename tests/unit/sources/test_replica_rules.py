"""Rules of a replica that rows are read from: what is refused by name, what is waited for, what stops no stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from databus import SnapshotOptions
from databus.binlog.log.capture import TableCapture
from databus.core.connections import Connection
from databus.core.errors.source import SnapshotNotYetVisibleError, SnapshotRefusedError, SnapshotReplicaBehindError
from databus.core.findings import Level
from databus.core.positions.binlog_offset import BinlogOffset
from databus.sources.mysql.replica_rules import own_of_mariadb, replica_faults
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot import server_load
from databus.sources.mysql.snapshot.server_load import ServerLoad
from databus.sources.mysql.snapshot.snapshot_preflight import replica_findings
from databus.sources.mysql.snapshot.views.replica_view import wait_for_replica

SOURCE = {"mysql": "uuid-of-source", "mariadb": "1"}
SETTINGS = {
    "mysql": {"gtid_mode": "ON", "log_bin": "ON", "read_only": "OFF", "super_read_only": "OFF"},
    "mariadb": {"log_bin": "ON", "read_only": "OFF"},
}
CHANNEL: dict[str, dict[str, Any]] = {
    "mysql": {"replica_io_running": "Yes", "source_uuid": SOURCE["mysql"], "replicate_ignore_db": ""},
    "mariadb": {"slave_io_running": "Yes", "master_server_id": 1, "replicate_ignore_db": ""},
}
UUID_COLUMN = {"mysql": "source_uuid", "mariadb": "master_server_id"}


class Scripted:
    """A server that answers what it is given; it keeps no state, so nothing of its own can be wrong."""

    def __init__(self, flavor: str, identity: str, channels: list[dict[str, Any]], settings: Mapping[str, str]):
        self.flavor, self.identity, self.channels, self.settings = flavor, identity, channels, settings
        self.connection = Connection(conn_id="replica", conn_type="mysql")

    def query_named(self, *_: object) -> list[dict[str, Any]]:
        return self.channels

    def query(self, sql: str, *_: object) -> list[tuple[Any, ...]]:
        answers = {"GRANTS": "GRANT SELECT ON *.* TO `a`@`%`", "CURRENT_USER": "a@%", "GTID": 0}
        return [(answer,) for word, answer in answers.items() if word in sql]

    def variables(self, *_: str) -> Mapping[str, str]:
        return self.settings


@pytest.fixture(params=["mysql", "mariadb"])
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def faults(flavor: str, *, settings: Mapping[str, str] | None = None, **channel: Any) -> list[tuple[str, bool]]:
    found = replica_faults(
        flavor, {**SETTINGS[flavor], **(settings or {})}, [{**CHANNEL[flavor], **channel}], SOURCE[flavor]
    )
    return [(fault.what, fault.lasts) for fault in found]


def test_a_replica_of_the_source_that_logs_what_it_writes_is_read(flavor: str) -> None:
    assert faults(flavor) == []


def test_writes_that_no_log_shows_are_refused_unless_there_can_be_none(flavor: str) -> None:
    assert faults(flavor, settings={"log_bin": "OFF"}) == [("log_bin", True)]
    admins = {"mysql": "super_read_only", "mariadb": "read_only"}[flavor]
    assert faults(flavor, settings={"log_bin": "OFF", admins: "ON"}) == []
    assert faults("mysql", settings={"log_bin": "OFF", "read_only": "ON"}) == [("log_bin", True)]
    assert faults("mariadb", settings={"log_bin": "OFF", "read_only": "NO_LOCK"}) == []


def test_a_server_in_between_is_refused_and_one_that_is_left_is_waited_for(flavor: str) -> None:
    between = {UUID_COLUMN[flavor]: "7"}
    assert faults(flavor, **between) == [("its source", True)]
    io = next(name for name in CHANNEL[flavor] if name.endswith("_io_running"))
    assert faults(flavor, **between, **{io: "Connecting"}) == [("its source", False)]  # after a failover
    assert faults(flavor, **{io: "No"}) == []
    assert faults(flavor, **{UUID_COLUMN[flavor]: ""}) == [("its source", False)]
    assert [fault.lasts for fault in replica_faults(flavor, SETTINGS[flavor], [], SOURCE[flavor])] == [False]
    beside = [CHANNEL[flavor], {**CHANNEL[flavor], **between}]
    assert [fault.lasts for fault in replica_faults(flavor, SETTINGS[flavor], beside, SOURCE[flavor])] == [True]


def test_older_servers_name_the_columns_otherwise() -> None:
    channel = {"slave_io_running": "Yes", "master_uuid": SOURCE["mysql"]}
    assert replica_faults("mysql", SETTINGS["mysql"], [channel], SOURCE["mysql"]) == []
    assert replica_faults("mysql", SETTINGS["mysql"], [channel], "another")[0].lasts


@pytest.mark.parametrize(
    ("settings", "channel", "error", "text"),
    [
        ({}, {}, None, ""),
        ({"log_bin": "OFF"}, {}, SnapshotRefusedError, "writes no log"),
        ({}, {"source_uuid": "7"}, SnapshotRefusedError, "server 7"),
        ({}, {"source_uuid": "7", "replica_io_running": "No"}, SnapshotReplicaBehindError, "server 7"),
        ({}, {"replicate_ignore_db": "a"}, SnapshotRefusedError, "replicate_ignore_db=a"),
        ({"gtid_mode": "OFF"}, {}, SnapshotRefusedError, "gtid_mode is not ON"),
    ],
)
def test_a_view_keeps_to_the_rules(
    settings: dict[str, str], channel: dict[str, Any], error: type[SnapshotNotYetVisibleError] | None, text: str
) -> None:
    class Session:
        flavor, wait_s, left_s = "mysql", 1.0, 1.0
        covers = BinlogOffset("a.000001", 4, "u:1-5", "mysql", SOURCE["mysql"])
        server = Scripted(
            "mysql", "r", [{**CHANNEL["mysql"], **channel}], {**SETTINGS["mysql"], **settings}
        )  # fmt: skip

    session: Any = Session()
    if error is None:
        wait_for_replica(session)
        return
    with pytest.raises(error, match=text):
        wait_for_replica(session)


def test_transactions_of_a_second_source_are_seen_on_mariadb() -> None:
    known = ["0-1-100", "", ""]
    assert own_of_mariadb(["0-1-100,0-2-90", "0-1-100"], known) == "0-2-90"
    assert own_of_mariadb(["0-1-90,0-2-101", ""], known) == "0-2-101"
    assert own_of_mariadb(["0-1-100", "0-1-100,3-9-1"], known) == "3-9-1"
    assert own_of_mariadb(["0-1-100", "0-1-100"], known) == ""
    assert (
        own_of_mariadb(["0-1-90,0-2-101", "0-1-90"], ["0-2-150", "0-1-90"]) == ""
    )  # a failover without updates logged
    assert own_of_mariadb([None, None], known) == ""


def test_a_replica_that_became_the_source_holds_no_snapshot(flavor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    promoted: Any = Scripted(flavor, "r", [], {})
    monkeypatch.setattr(server_load, "MysqlServer", lambda _: promoted)
    options, replicas = SnapshotOptions(read_from="replica"), {"replica": promoted.connection}
    source: Any = Scripted(flavor, "s", [], {})
    assert ServerLoad(source, replicas, options).excess() == "replica replica does not replicate"
    source = Scripted(flavor, "r", [], {})
    assert ServerLoad(source, replicas, options).excess() == ""
    assert {f.level for f in replica_findings(promoted, TableCapture(("a.*",)), source)} == {Level.OK}


def test_findings_tell_what_is_waited_for_as_a_warning(flavor: str) -> None:
    source: Any = Scripted(flavor, SOURCE[flavor], [], {})
    io = next(name for name in CHANNEL[flavor] if name.endswith("_io_running"))

    def levels(settings: Mapping[str, str], **channel: Any) -> dict[str, Level]:
        channels = [{**CHANNEL[flavor], **channel}]
        replica: Any = Scripted(flavor, "r", channels, {**SETTINGS[flavor], "read_only": "ON", **settings})
        found = replica_findings(replica, TableCapture(("a.*",)), source)
        return {f.subject.partition(": ")[2]: f.level for f in found if f.level is not Level.OK}

    between = {UUID_COLUMN[flavor]: "7"}
    assert levels({}) == {}
    assert levels({}, **between) == {"its source": Level.ERROR}
    assert levels({}, **between, **{io: "No"}) == {"its source": Level.WARN}
    assert levels({"log_bin": "OFF", "read_only": "OFF"}) == {"log_bin": Level.ERROR}
    assert levels({"read_only": "OFF"}) == {"read_only": Level.WARN}
    if flavor == "mysql":
        assert levels({"gtid_mode": "OFF"}) == {"gtid_mode": Level.ERROR}


def test_a_replica_that_is_away_is_a_warning() -> None:
    away = MysqlServer(Connection(conn_id="replica", conn_type="mysql", host="127.0.0.1", port=1))
    source: Any = Scripted("mysql", "s", [], {})
    (found,) = replica_findings(away, TableCapture(("a.*",)), source)
    assert (found.level, found.code) == (Level.WARN, "source_unavailable")
