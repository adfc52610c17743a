"""The built pages that are committed are those of the committed source: `make ui` was run after its last change."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_bundle_is_built_from_its_source() -> None:
    ui, bundle = ROOT / "ui", ROOT / "include" / "databus" / "web" / "bundle"
    source = hashlib.sha256()
    files = ["package-lock.json", "vite.config.ts", *(f"src/{file.name}" for file in (ui / "src").iterdir())]
    for name in sorted(files):
        source.update(f"{name}\n".encode() + (ui / name).read_bytes())
    built = json.loads((bundle / "built.json").read_text())
    assert built == {
        "source": source.hexdigest(),
        "bundle": hashlib.sha256((bundle / "main.js").read_bytes()).hexdigest(),
    }, "run `make ui`"
