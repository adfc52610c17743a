"""Write the pages of docs/reference: `make reference`."""

from __future__ import annotations

import sys

from tests.reference import openapi
from tests.reference.pages import FOLDER, PAGES, ROOT, written


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    texts = {FOLDER / name: written(name) for name in PAGES} | {openapi.FILE: openapi.text()}
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
