"""Contract suites of sources and sinks: subclass one, give its fixture, run pytest. No server of databus, no Spark.

pytest is needed here alone; it is no dependency of databus.
"""

from databus.core.errors.config import ConfigError

try:
    import pytest
except ModuleNotFoundError as missing:
    raise ConfigError("databus.testing.contract needs pytest", hint="Run: pip install pytest") from missing

pytest.register_assert_rewrite(f"{__name__}.sink", f"{__name__}.source")

from databus.testing.contract.simple_sink import SimpleSinkAdapter, opened  # noqa: E402 - asserts are rewritten first
from databus.testing.contract.sink import ContractChange, SinkAdapter, SinkContract  # noqa: E402
from databus.testing.contract.source import SimpleSubject, SourceContract, SourceUnderTest  # noqa: E402

__all__ = [
    "ContractChange",
    "SimpleSinkAdapter",
    "SimpleSubject",
    "SinkAdapter",
    "SinkContract",
    "SourceContract",
    "SourceUnderTest",
    "opened",
]
