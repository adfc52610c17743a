"""Numba kernels: loops over raw log bytes, without Python objects and without the GIL.

Each is compiled at its first call and cached on disk beside its module. A kernel never raises: it returns a status
that the caller turns into a `DecodeError` with file and position. Every read is checked against the end of its event
before it happens.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path


def _drop_stale_machine_code() -> None:
    """Delete cached machine code when any kernel's source has changed.

    Numba looks only at the file of the function it compiled, not at those of the functions inlined into it: after a
    change of one module (a pull, an edit) the others would go on running the old code.
    """
    folder = Path(__file__).parent
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()
    cache = folder / "__pycache__"
    stamp = cache / "kernels.sha256"
    if not cache.is_dir() or (stamp.exists() and stamp.read_text() == digest):
        return
    for path in cache.glob("*.nb[ic]"):
        path.unlink(missing_ok=True)
    stamp.write_text(digest)


# A zip archive or a folder that cannot be written holds no machine code of other sources: they were installed as a
# whole.
with contextlib.suppress(OSError):
    _drop_stale_machine_code()
