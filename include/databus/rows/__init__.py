"""Rows on their way: decoded images → the one DataFrame shape (`ROW_COLUMNS`) → a typed view for transforms and checks.

Knows neither sources nor sinks; the encoders need Arrow and Numba only, `changes` needs nothing but
`pyspark.sql.functions`. For sinks: `version_of` orders rows, `typed_rows` gives a table's real columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from databus.rows.typed import typed_rows
    from databus.rows.versions import comparable, version_numbers, version_of

__all__ = ["comparable", "typed_rows", "version_numbers", "version_of"]

_PLACES = {name: "typed" if name == "typed_rows" else "versions" for name in __all__}


def __getattr__(name: str) -> Any:
    # Loaded when it is used: most importers of this package want one of its modules, without Arrow.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
