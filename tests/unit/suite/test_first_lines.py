"""First lines of docstrings name their subject: no question word, nothing that stands for a thing."""

from __future__ import annotations

import re

from tests.unit.suite.definitions import definitions

_NO_SUBJECT = re.compile(r"^(What|Which|Whoever|Who|Whether|How|Where|When|All that|Those|Something|Somebody|They)\b")


def test_no_first_line_begins_with_a_question() -> None:
    assert len(definitions()) > 5_000
    assert [f"{each.file}: {each.first}" for each in definitions() if _NO_SUBJECT.match(each.first)] == []
