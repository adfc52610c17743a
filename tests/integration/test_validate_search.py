"""`databus validate` on search: altered documents are named and sent again, and nothing else, whatever is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opensearchpy import OpenSearch

from databus import Elasticsearch
from databus.core.errors.config import ConfigError
from databus.core.errors.sink import ValidationRefusedError
from databus.ops.validation import sink_keys
from tests.integration.compared_flow import ComparedFlow
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.test_snapshot_flow import Table

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROWS = 400
PAIRS = (("a''b", 1), ("ü,]", 2), ("[1]", 3))


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "mysql", "opensearch"), tmp_path_factory.mktemp("validate_search"))


class Compared(ComparedFlow):
    """A flow of two tables into one index."""

    def __init__(self, world: OneProcessWorld, folder: Path, monkeypatch: pytest.MonkeyPatch, **sink: Any):
        table = Table(world, "mysql", rows=ROWS)
        table.run(
            f"CREATE TABLE {table.name}.pair (k VARCHAR(20), n INT, x DECIMAL(30,10), d DATE, PRIMARY KEY (k, n))",
            *(f"INSERT INTO {table.name}.pair VALUES ('{k}', {n}, 12345678901234567890.5, NULL)" for k, n in PAIRS),
        )
        options: dict[str, Any] = {"ids": "table_key", "index": "{database}", **sink}
        super().__init__(table, folder, monkeypatch, Elasticsearch(conn_id="opensearch_default", **options))
        host, port = world.sandbox.address("opensearch").split(":")
        self.client = OpenSearch([{"host": host, "port": int(port)}])

    def tamper(self, key: str, document: dict[str, Any] | None, table: str = "t") -> str:
        """Write a document behind the flow's back, twice; return its id."""
        made = f"{self.name}.{table}:{key}"
        if document is not None:
            self.client.index(index=self.name, id=made, body={"v": -1})
            self.client.index(index=self.name, id=made, body=document)
        else:
            self.client.delete(index=self.name, id=made)
        return made


@pytest.fixture
def compared(world: OneProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Compared]:
    made = Compared(world, tmp_path, monkeypatch)
    made.run()
    yield made
    made.client.close()


def test_what_was_altered_is_named_and_sent_again_and_nothing_else(compared: Compared) -> None:
    assert compared()[:2] == (0, set())
    altered = {
        ("different", compared.tamper("20", {"id": 20, "v": 0, "name": "altered"})),
        ("different", compared.tamper('["ü,]",2]', {"k": "ü,]", "n": 2, "x": 12345678901234567890.6}, "pair")),
        ("missing", compared.tamper('["[1]",3]', None, "pair")),
        ("missing", compared.tamper("40", None)),
    }
    extra = {
        ("extra", compared.tamper("41", {"id": 41})),
        ("extra", compared.tamper("by hand", {"id": 41})),
    }
    code, found, result = compared()
    assert (code, found) == (8, altered | extra)
    (sink,) = result["sinks"]
    told = {each["key"]: each for each in sink["differences"]}
    assert told[f"{compared.name}.t:20"]["columns"] == ["name"]
    assert "at" not in told[f"{compared.name}.t:20"]["source"]
    assert told[f'{compared.name}.pair:["ü,]",2]']["source"]["x"] == "12345678901234567890.5"
    assert {each["table"] for each in sink["differences"]} == {f"{compared.name}.t", f"{compared.name}.pair"}

    done = compared.command("validate", compared.name, "--repair", "--delete-extra")
    assert done.exit_code == 8
    assert "4 keys that are missing or different are read by a snapshot" in done.output
    assert "1 extra key to be deleted by a snapshot" in done.output
    assert "not deleted: 1 extra key of which" in done.output
    assert compared.snapshot().number == 1
    with pytest.raises(ConfigError, match="--execute changes nothing without --repair"):
        compared("--execute")
    with pytest.raises(ConfigError, match="a repair needs who and why"):
        compared("--repair", "--execute")
    # Nothing was logged since these documents were written: what somebody wrote has greater versions.
    with compared.running():
        repair = ("--repair", "--delete-extra", "--execute", "--reason", "a test")
        done = compared.command("validate", compared.name, *repair)
    assert done.exit_code == 8
    assert [f"snapshot {number} of the repair begins" in done.output for number in (2, 3)] == [True, True]
    compared.run()
    snapshot = compared.snapshot()
    assert (snapshot.number, snapshot.cause, snapshot.finished_at is not None) == (3, "repair", True)
    assert {table.table: table.rows for table in snapshot.tables} == {f"{compared.name}.t": 1}
    by_hand = f"{compared.name}.t:by hand"
    assert compared()[:2] == (8, {("extra", by_hand)})
    compared.client.delete(index=compared.name, id=by_hand)
    assert compared()[:2] == (0, set())


def test_a_difference_is_found_while_others_write_and_nothing_else(compared: Compared) -> None:
    name = compared.name
    compared.table.run(f"INSERT INTO {name}.t (id, v, name) VALUES (9000001, 1, 'kept'), (9000002, 1, 'gone')")
    compared.run()
    altered = {
        ("different", compared.tamper("9000001", {"id": 9000001, "v": 2, "name": "kept"})),
        ("missing", compared.tamper("9000002", None)),
        ("extra", compared.tamper("9000003", {"id": 9000003})),
    }
    with compared.running(), compared.table.changed():
        results = [compared() for _ in range(2)]
    for code, found, result in results:
        assert (code, found) == (8, altered)
        (sink,) = result["sinks"]
        assert sink["tables"][f"{name}.t"]["moving"] < ROWS / 10


def test_documents_of_other_tables_and_flows_in_the_index_are_not_extra(compared: Compared) -> None:
    name = compared.name
    compared.client.index(index=name, id="elsewhere.t:1", body={"id": 1})
    extra = ("extra", compared.tamper("1", {"id": 1}))
    compared.tamper("77", {"k": 77}, "pair")
    code, found, result = compared("--table", f"{name}.t")
    assert (code, found) == (8, {extra})
    assert result["sinks"][0]["notes"] == []
    assert result["rows_read"] == ROWS


def test_a_repair_of_many_keys_goes_in_pieces(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_keys, "_AT_ONCE", 2)
    for number in (0, 2, 4, 6, 8):
        compared.tamper(str(number), None)
    with compared.running():
        done = compared.command(
            "validate", compared.name, "--repair", "--execute", "--reason", "a test", "--wait", "60"
        )
        assert "read by 3 snapshots, one after the other" in done.output
        assert done.output.count("of the repair begins") == 3
    compared.run()
    assert (compared.snapshot().number, compared.snapshot().tables[0].rows) == (4, 1)
    assert compared()[:2] == (0, set())


def test_an_index_that_keeps_no_whole_documents_is_refused_by_name(
    world: OneProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = Compared(world, tmp_path, monkeypatch, mapping={"_source": {"excludes": ["name"]}, "dynamic": False})
    compared.run()
    with pytest.raises(ValidationRefusedError, match=f"index '{compared.name}' does not keep documents as they were"):
        compared()
    compared.client.close()
