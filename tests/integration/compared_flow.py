"""A flow of tables that hold rows, and `databus validate` on it, in the test's process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Batching, DropColumns, Flow, MysqlBinlog
from databus.ops.services import open_services
from tests.beside import beside
from tests.integration.commands import Commands
from tests.integration.one_process import OneProcessWorld
from tests.integration.test_snapshot_flow import Table

Found = set[tuple[str, str]]
"""Kind and key of what differs."""


class ComparedFlow:
    """A table `t` with rows, a flow of its database, and the command on it.

    Args:
        table: has the rows; made before.
        folder: where the flow's file is written.
        sink: where the flow goes.
        more: further options of the flow.
    """

    def __init__(self, table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch, sink: Any, **more: Any):
        self.world: OneProcessWorld = table.world
        self.table, self.name = table, table.name
        self.flow = Flow(
            name=self.name,
            source=MysqlBinlog(conn_id=f"{table.flavor}_shop", tables=(f"{self.name}.*",), snapshot="initial"),
            transforms=(DropColumns("at", tables=(f"{self.name}.t",)),),
            sinks=(sink,),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
            **more,
        )
        self._file = folder / "flow.py"
        self.write(self.flow)
        self.command = Commands(self.world, folder, monkeypatch)

    def write(self, flow: Flow) -> None:
        """Write the flow as the command finds it."""
        lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({flow.to_json()!r})")
        self._file.write_text("\n".join(lines))

    def run(self) -> None:
        """Let the flow catch up."""
        self.world.run(self.flow)

    def __call__(self, *options: str) -> tuple[int, Found, Any]:
        """Return exit code, what differs, and the result of the command."""
        done = self.command("validate", self.name, "--wait", "100", *options, "--output", "json")
        result = json.loads(done.stdout)
        (sink,) = result["sinks"]
        return done.exit_code, {(each["kind"], each["key"]) for each in sink["differences"]}, result

    def said(self, *options: str) -> str:
        """Return what the command prints for people."""
        return self.command("validate", self.name, *options).output

    def figures(self, *options: str) -> dict[str, int]:
        """Return the figures of `t`."""
        _, _, result = self(*options)
        return dict(result["sinks"][0]["tables"][f"{self.name}.t"])

    def snapshot(self) -> Any:
        """Return the flow's snapshot as it is stored."""
        with open_services(self.flow, self.world.connections, self.world.settings) as services:
            return services.store.snapshot(self.name)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the flow run until the block ends."""
        with beside(lambda _: self.run()):
            yield
