"""Values in JSON texts by a path: the kernel beside a plain reading, and what is left to Spark."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from databus.expressions.errors import NotCompiledError, SparkNeededError
from databus.expressions.functions.registry import Arguments, resolve
from databus.expressions.text.json_paths import JsonPath
from tests.unit.expressions.json_documents import PATHS, document


def found(path: str, *texts: str | None, digits: bool = False) -> list[str | None]:
    known = JsonPath.of(path, digits=digits)
    assert known is not None
    return known.values(pa.array(texts, pa.string())).to_pylist()  # type: ignore[no-any-return]


def test_values_are_those_of_the_path() -> None:
    texts = [
        '{"a":{"b":"Ulm"}}', None, "", "[]", '"a"', '{"a":{"b":null,"b":"x"}}', ' {"a" : {"b":"é\\n\\u00e9"}} trailing',
        '{"a":{"b":"x"}', '{"a":{"b":[1, "a\\u001f/", {"k" :true}]}}', '{"\\u0061":{"b":true}}',
        '{"a":{"c":1}, "a":{"b":false}}', '{"a":[{"b":1}],"a":{"b":-0}}', '{"a":{"b":1},"z":01}',
        '{"z":[[{}],{"a":1}],"a":{"b":12345678901234567890}}', '{"a":{"b":"\t"}}', '{"a":{"b":"x"},}',
    ]  # fmt: skip
    assert found("$.a.b", *texts) == [
        "Ulm", None, None, None, None, "x", "é\né", None, '[1,"a\\u001F/",{"k":true}]', "true", "false", "0", None,
        "12345678901234567890", "\t", None,
    ]  # fmt: skip
    assert found("$[1]['odd key']", '[0, {"odd key": "y"}]') == ["y"]
    assert found("$[0]", "[null]", "[]") == ["null", None]  # an element that is null is one
    # Jackson escapes what needs two halves, but not in a text that is given as it is.
    assert found("$.a", '{"a":["é😀"]}', '{"a":"é😀"}') == ['["é\\uD83D\\uDE00"]', "é😀"]


def test_what_java_writes_anew_is_left_to_spark_but_as_a_double() -> None:
    assert found("$.a", '{"a":1.50}', '{"a":7}', '{"\\u0061":2.50e1}', digits=True) == ["1.50", "7", "2.50e1"]
    for text in ('{"a":1.5}', '{"a":[1.5]}', "{'a':1}", '{"a":"\\ud800"}', '{"a":' + "9" * 200 + "}", "[" * 300):
        with pytest.raises(SparkNeededError):
            found("$.a", text)
    with pytest.raises(SparkNeededError):
        found("$.a", '{"a":1e999}', digits=True)
    assert found("$.b", '{"a":1.5,"b":2}') == ["2"]


@pytest.mark.parametrize("path", ["$", "a", "$.*", "$[*]", "$. a", "$.a?", "$.a..b", "$['*']", "$[-1]"])
def test_other_paths_are_not_compiled(path: str) -> None:
    with pytest.raises(NotCompiledError):
        resolve(Arguments("get_json_object", ("string", "string"), (None, path), written=(False, True)))


def test_the_kernel_finds_what_a_plain_reading_finds() -> None:
    r = random.Random(7)
    texts = [document(r) for _ in range(1_500)]
    compared = 0
    for path in PATHS:
        known = JsonPath.of(path)
        assert known is not None
        for text in texts:
            try:
                (ours,) = known.values(pa.array([text]))
            except SparkNeededError:
                continue
            compared += 1
            assert ours.as_py() == known.read(text), (path, text)
    assert compared > 10_000
