"""The run facet of this product; imported lazily, because the client's classes are heavy."""

from __future__ import annotations

from typing import Any, ClassVar

import attr
from openlineage.client.facet_v2 import RunFacet


@attr.define
class DatabusRunFacet(RunFacet):
    """Run facet `databus`: which batches a run moved, from where to where, and how many rows."""

    values: dict[str, Any] = attr.field(factory=dict)

    _additional_skip_redact: ClassVar[list[str]] = ["values"]
