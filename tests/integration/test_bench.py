"""The decoding benchmark at its smallest size: every figure is there, and counts are compared with what was written."""

from __future__ import annotations

import numpy as np
import pytest

from databus.bench.decoding.decode import BARS, decode_file, measure, scan_boundaries
from databus.bench.log_files import WrittenLog, log_writer
from databus.bench.options import DecodeOptions
from databus.bench.orders import create, load
from databus.core.errors import ReconciliationError
from databus.sandbox import Sandbox

pytestmark = pytest.mark.integration
SMALL = DecodeOptions(5_000, 200, 500, 5_000, 5_000, repeats=1, mariadb=True)


def test_every_figure_with_a_bar_is_measured(databases: Sandbox) -> None:
    said: list[str] = []
    result = measure(databases, SMALL, said.append)
    wanted = {bar.key for bar in BARS} - {"scaling_1_to_2_cores"}
    assert wanted <= set(result.figures)
    assert all(value > 0 for value in result.figures.values())
    assert {"mariadb_decode_crc_rows_per_cpu_second", "reader_crc_rows_per_cpu_second"} <= set(result.figures)
    assert said


def test_other_rows_than_were_written_are_no_figure(databases: Sandbox) -> None:
    with log_writer(databases, "mysql") as writer:
        create(writer.connection)
        log = writer.write(lambda connection: sum(load(connection, 5_000).values()))
        assert scan_boundaries(np.fromfile(log.path, np.uint8)[4:]) == 64  # 12 + 30 + 12 + 1 + 8 + 1, see load
        decode_file(log)
        with pytest.raises(ReconciliationError, match="5000 rows were decoded, 4999 were written"):
            decode_file(WrittenLog(log.path, 4999, log.server))
