"""The runbooks, followed step by step on real servers: what the page says to type is typed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from databus.core.errors import OffsetPurgedError
from databus.demo.oracle import mismatches, source_state
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.services import open_services
from databus.runtime.spark import session as engine
from tests.integration.backfills import BackfillShop, Later
from tests.integration.commands import Commands
from tests.integration.conftest import World
from tests.integration.followed_hints import forget_log_of
from tests.integration.one_process import OneProcess
from tests.integration.runbook import RUNBOOKS, links, steps
from tests.integration.shop_flow import KEYS

pytestmark = [pytest.mark.integration]

PAGES = sorted(page.name for page in RUNBOOKS.glob("*.md"))


class Operator:
    """Types what a page says."""

    def __init__(self, world: World, shop: BackfillShop, folder: Path, monkeypatch: pytest.MonkeyPatch):
        shop.shop.dag_file(folder)
        self.commands = Commands(world, folder, monkeypatch)
        # Rows move through the servers as ever; only Spark is this process, which has nothing to do with the pages.
        monkeypatch.setattr(engine, "connect_session", lambda *_: OneProcess())
        monkeypatch.setattr(
            "databus.ops.services.SystemClock", Later
        )  # the shop's commit times are chosen, and lie in the future

    def types(self, lines: Sequence[Sequence[str]]) -> list[Result]:
        return [self.commands(*line) for line in lines]

    def reads(self, line: Sequence[str]) -> Any:
        """Type a line with the output that programs read."""
        return yaml.safe_load(self.commands(*line, "--output", "yaml").stdout)


@pytest.mark.parametrize("page", PAGES)
def test_pages_refer_to_files_that_are_there(page: str) -> None:
    assert [path for path in links(page) if not path.is_file()] == []


def test_links_are_found_in_pages() -> None:
    assert all(links(page) for page in ("after-an-outage.md", "backfill-a-day.md"))


def test_after_an_outage(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop = BackfillShop.of(world, "rb_outage")
    flow = shop.shop.flow
    shop.shop.flow = flow.model_copy(update={"batching": flow.batching.model_copy(update={"max_rows": 40})})
    shop.commit_at(0, 20)
    shop.live()
    shop.commit_at(1, 60)  # what came while nothing ran
    with caplog.at_level("INFO"):
        shop.live(max_batches=1)  # a first window after it says how long the rest takes
    assert re.search(r"catching up: \d+ bytes are left; time to the head at this window's rate: \d+ s", caplog.text)
    operator = Operator(world, shop, tmp_path, monkeypatch)
    page = steps("after-an-outage.md", {"FLOW": shop.name, "SPARK": "sc://here", "WHY": "not needed"})
    assert set(page) == {1, 2, 3, 4}
    (lag,) = operator.reads(page[1][0])
    assert lag["lag_bytes"] > 0
    assert lag["eta_seconds"] > 0
    assert not operator.reads(page[1][1])["paused"]
    operator.types(page[2][1:2])  # the other lines are for a log that is gone
    assert operator.types(page[3])[0].exit_code == 0
    assert [result.exit_code for result in operator.types(page[4])] == [0, 0]
    assert operator.reads(page[1][0])[0]["lag_bytes"] == 0
    shop.shop.assert_all_arrived_once()


def purged(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[BackfillShop, Operator]:
    """A shop whose flow lacks changes that the server's log has no more; its last run has stopped before them."""
    shop = BackfillShop.of(world, name)
    shop.commit_at(0, 15)
    shop.live()
    shop.commit_at(1, 30)
    forget_log_of(shop.shop.connection)
    with pytest.raises(OffsetPurgedError):
        shop.live()
    return shop, Operator(world, shop, tmp_path, monkeypatch)


def assert_tables_are_there(shop: BackfillShop) -> None:
    """Compare what is in the tables with the topic, which may hold rows that were deleted in the gap besides."""
    seen = shop.shop.seen()
    for table, keys in KEYS.items():
        expected = source_state(shop.shop.connection, f"shop.{table}", keys)
        for row in expected.values():
            row.pop("card_number", None)
        held = seen.state.get(f"shop.{table}", {})
        assert mismatches(expected, {key: row for key, row in held.items() if key in expected}) == []
    assert seen.duplicates == 0


def test_gap(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop, operator = purged(world, tmp_path, monkeypatch, "rb_gap")
    page = steps("gap.md", {"FLOW": shop.name, "SPARK": "sc://here", "WHY": "read anew"})
    assert set(page) == {1, 2, 3, 4, 5}
    assert not page[2]
    gaps = page[1][0]
    assert gaps == page[4][2]
    assert [gap["decision"] for gap in operator.reads(gaps)] == ["open"]
    assert operator.reads(page[1][1])["open_gaps"]
    told = operator.reads(page[3][0])
    assert set(told["repair"]["tables"]) == {f"shop.{table}" for table in KEYS}
    assert [gap["decision"] for gap in operator.reads(gaps)] == ["open"]
    operator.types(page[3][1:])
    assert [(gap["decision"], gap["why"]) for gap in operator.reads(gaps)] == [
        ("being mended by snapshot 1", "read anew")
    ]
    shop.commit_at(2, 10)
    assert operator.types(page[4])[0].exit_code == 0
    assert operator.reads(page[4][1])["finished_at"]
    assert [gap["decision"] for gap in operator.reads(gaps)] == ["mended by snapshot 1"]
    assert operator.types(page[5])[0].exit_code == 0
    assert_tables_are_there(shop)


def test_after_an_outage_that_outlasted_the_log(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop, operator = purged(world, tmp_path, monkeypatch, "rb_outlast")
    page = steps("after-an-outage.md", {"FLOW": shop.name, "SPARK": "sc://here", "WHY": "read anew"})
    (lag,) = operator.reads(page[1][0])
    assert "was deleted from the server" in lag["error"]
    assert operator.reads(page[1][1])["open_gaps"]
    doctor, gaps, preview, passed = page[2]
    assert OffsetPurgedError.code in {finding["code"] for finding in operator.reads(doctor)}
    assert [gap["decision"] for gap in operator.reads(gaps)] == ["open"]
    assert operator.reads(preview)["repair"]["snapshot"] == 1
    operator.types([passed])
    assert operator.types(page[3])[0].exit_code == 0
    assert [gap["decision"] for gap in operator.reads(gaps)] == ["mended by snapshot 1"]
    assert [result.exit_code for result in operator.types(page[4])] == [0, 0]
    assert_tables_are_there(shop)


def test_backfill_a_day(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = BackfillShop.of(world, "rb_day")
    shop.commit_at(0, 15)
    shop.live()
    shop.commit_at(1, 15)
    with open_services(shop.shop.flow, world.connections, world.settings) as services:
        mediation.execute(shop.shop.flow, services, "skip", Target(place="latest"), Attribution("ada", "in a hurry"))
    shop.commit_at(2, 15)
    shop.live()
    operator = Operator(world, shop, tmp_path, monkeypatch)
    values = {"FLOW": shop.name, "FROM": shop.at(1), "TO": shop.at(2), "SPARK": "sc://here"}
    page = steps("backfill-a-day.md", values)
    assert set(page) == {1, 2, 3, 4}
    before = shop.ids()
    assert len(operator.reads(page[1][0])["pieces"]) == 1
    assert shop.ids() == before
    assert operator.types(page[2])[0].exit_code == 0
    had = shop.ids()
    assert sum(had.values()) == sum(shop.shop.writer.written.changes.values())
    assert set(had.values()) == {1}
    assert operator.types(page[3])[0].exit_code == 0
    assert set(shop.ids(".replay").values()) == {1}
    assert shop.ids() == had
    found = operator.reads(page[4][0])
    assert [(f["mode"], f["done"]) for f in found] == [("missing", True), ("replay", True)]
    assert found[1]["rows"]["dispatched"] == sum(shop.ids(".replay").values())
    assert operator.types(page[4][1:])[0].exit_code == 0
