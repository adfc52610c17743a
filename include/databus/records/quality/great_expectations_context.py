"""Great Expectations: imported without its usage statistics, its temporary folders removed."""

from __future__ import annotations

import os
import shutil
import warnings
from types import ModuleType
from typing import Any

from databus.core.packages import require


def great_expectations() -> ModuleType:
    """Import Great Expectations without its usage statistics; it imports a module that Python 3.11 deprecates.

    Raises:
        PackageMissingError: it is not installed.
    """
    require(("quality",), "the quality of a run, by its flow's checks and expectations,")
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import great_expectations
    return great_expectations  # type: ignore[no-any-return]


def remove_docs_sites(context: Any) -> None:
    """Delete the temporary folders that an ephemeral context makes for pages nobody asked for, and leaves behind."""
    for site in (context.variables.data_docs_sites or {}).values():
        shutil.rmtree(site["store_backend"]["base_directory"], ignore_errors=True)
