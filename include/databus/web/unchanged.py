"""Answers that a page has already seen: an ETag of what is said, and 304 without a body where it is the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Header
from fastapi.responses import JSONResponse, Response

IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="ETag of an answer that is known: 304 where it is the same.")
]


def told(facts: Mapping[str, Any], known: str | None) -> Response:
    """Return facts as JSON with their ETag; 304 where who asks has them.

    Args:
        facts: plain JSON, without the time at which it was asked.
        known: If-None-Match as it was sent; None without.
    """
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
    headers = {"ETag": f'"{digest}"', "Cache-Control": "private, no-cache"}
    if known is not None and digest in {tag.strip().removeprefix("W/").strip('"') for tag in known.split(",")}:
        return Response(status_code=304, headers=headers)
    return JSONResponse(dict(facts), headers=headers)
