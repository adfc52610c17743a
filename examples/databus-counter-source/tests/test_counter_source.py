"""The counter source keeps the source contract."""

import pytest

from databus.testing.contract import SimpleSubject, SourceContract
from databus_counter_source import CounterSource


class TestContract(SourceContract):
    counts_lag = False  # a simple source tells the age of what is left, and not its bytes

    @pytest.fixture
    def subject(self) -> SimpleSubject:
        return SimpleSubject(CounterSource(last=100, per_second=50))
