"""Tables of a pattern that the account may not be shown: told wherever rows of tables are read."""

from __future__ import annotations

import logging

import pytest

from databus.core.errors.source import SnapshotRefusedError
from databus.core.findings import Finding, Level
from databus.ops.checkpoint.repair import require_readable

HIDDEN = Finding("m: SELECT", Level.WARN, "the rows of others are not read", "GRANT SELECT", "source_access_denied")


def test_hidden_tables_are_told(caplog: pytest.LogCaptureFixture) -> None:
    keyless = Finding("m: table shop.t", Level.WARN, "no primary key", "", "snapshot_no_primary_key")
    with caplog.at_level(logging.WARNING):
        require_readable([Finding("m", Level.OK, "well"), HIDDEN, keyless])
    assert caplog.messages == ["m: SELECT: the rows of others are not read GRANT SELECT"]


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(SnapshotRefusedError, match="m: binlog_row_image: MINIMAL"):
        require_readable([HIDDEN, Finding("m: binlog_row_image", Level.ERROR, "MINIMAL", "", "snapshot_refused")])
