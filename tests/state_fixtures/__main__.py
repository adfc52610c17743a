"""`python -m tests.state_fixtures`: the fixture of this version's stored forms."""

from __future__ import annotations

import json

from databus import __version__
from tests.state_fixtures import KEPT
from tests.state_fixtures.samples import samples

if __name__ == "__main__":
    folder = KEPT / __version__
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(samples(), indent=1, ensure_ascii=False)
    (folder / "forms.json").write_text(text + "\n", encoding="utf-8")
