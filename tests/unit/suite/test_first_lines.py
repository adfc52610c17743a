"""First lines of docstrings name their subject: no question word, nothing that stands for a thing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PRODUCT = Path(__file__).parents[3] / "include" / "databus"

_NO_SUBJECT = re.compile(r"^(What|Which|Whoever|Who|Whether|How|Where|When|All that|Those|Something|Somebody|They)\b")


def test_no_first_line_begins_with_a_question() -> None:
    found = []
    for path in sorted(PRODUCT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                first = (ast.get_docstring(node) or "").partition("\n")[0]
                if _NO_SUBJECT.match(first):
                    found.append(f"{path.relative_to(PRODUCT)}: {first}")
    assert found == []
