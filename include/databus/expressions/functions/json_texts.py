"""Functions that read JSON texts."""

from __future__ import annotations

from collections.abc import Callable

from databus.expressions.functions.registry import Arguments, Resolved, register
from databus.expressions.functions.signatures import converted_type
from databus.expressions.kernels.decimals import on_array
from databus.expressions.text.json_paths import JsonPath


def _get_json_object(*, digits: bool) -> Callable[[Arguments], Resolved]:
    def resolved(arguments: Arguments) -> Resolved:
        if len(arguments) != 2:
            raise arguments.refused()
        converted_type(arguments, 0, "string")
        given = arguments.literal(1)
        path = JsonPath.of(given, digits=digits) if isinstance(given, str) else None
        if path is None:
            raise arguments.refused(f"the path {given}")
        in_texts = on_array(path.values)
        return Resolved("string", ("string", "string"), lambda texts, _: in_texts(texts))

    return resolved


register("get_json_object", resolve=_get_json_object(digits=False))
register("_json_digits", resolve=_get_json_object(digits=True))
