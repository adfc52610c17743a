"""A real Debezium's messages over the same log as ours, made anew: what `tests/fixtures/debezium` keeps is still so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from databus.sandbox import Sandbox
from tests.integration.debezium_recorder import record
from tests.ports import ports_from
from tests.unit.formats.debezium_differences import left_over
from tests.unit.formats.debezium_recording import KEPT, Recording, differences
from tests.unit.formats.debezium_tables import TABLES, VARIANTS

_OF_THE_RUN = re.compile(r"\.source\.(ts_ms|gtid|file): ")
"""Facts of the server and of the moment."""

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


def test_ours_are_debezium_s_but_for_what_is_known(tmp_path: Path) -> None:
    # Servers of its own: the connector reads a server's log from its beginning.
    sandbox = Sandbox(tmp_path / "sandbox", ports_from=ports_from(28_600))
    try:
        sandbox.up(("kafka", "mysql", "debezium"))
        record(sandbox, tmp_path / "recording")
    finally:
        sandbox.destroy()
    made, kept = Recording(tmp_path / "recording"), Recording(KEPT)
    for variant in VARIANTS:
        ours = made.ours(variant)
        for table in TABLES:
            theirs = made.debezium[variant][table]
            assert left_over(list(differences(ours[table], theirs))) == [], (variant, table)
            changed = [
                each for each in differences(kept.debezium[variant][table], theirs) if not _OF_THE_RUN.search(each)
            ]
            assert changed == [], (variant, table)
