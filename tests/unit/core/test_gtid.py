from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import OffsetInvalidError
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "3e11fa47-71ca-11e1-9e33-c80aa9429563"

sources = st.sampled_from([A, B, f"{A}:blue", f"{A}:a_1", f"{B}:blue"])
transactions = st.sets(st.tuples(sources, st.integers(1, 40)), max_size=40)


def gtid_set(members: set[tuple[str, int]]) -> MysqlGtidSet:
    result = MysqlGtidSet()
    for source, sequence in members:
        result = result.add(source, sequence)
    return result


def members(gtids: MysqlGtidSet) -> set[tuple[str, int]]:
    return {(s, n) for s, parts in gtids.intervals.items() for a, b in parts for n in range(a, b + 1)}


class TestMysqlAgainstPlainSets:
    @given(transactions)
    def test_text_form_is_read_back(self, some: set[tuple[str, int]]) -> None:
        gtids = gtid_set(some)
        assert members(gtids) == some
        assert MysqlGtidSet.parse(str(gtids)) == gtids

    @given(transactions, transactions)
    def test_union_minus_contains(self, left: set[tuple[str, int]], right: set[tuple[str, int]]) -> None:
        a, b = gtid_set(left), gtid_set(right)
        assert members(a.union(b)) == left | right
        assert members(a.minus(b)) == left - right
        assert a.contains(b) == (left >= right)
        assert a.union(b).contains(a)

    @given(transactions)
    def test_one_form_per_set(self, some: set[tuple[str, int]]) -> None:
        for parts in gtid_set(some).intervals.values():
            assert all(first <= last for first, last in parts)
            assert all(last + 1 < first for (_, last), (first, _) in pairwise(parts))


class TestMysqlText:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", {}),
            (f"{A}:5", {A: ((5, 5),)}),
            (f"{A.upper()}:1-5:7", {A: ((1, 5), (7, 7))}),
            (f"{A}:7:1-5:6", {A: ((1, 7),)}),
            (f"{A}:1-3,\n{B}:2", {A: ((1, 3),), B: ((2, 2),)}),
            (f"{A}:1-3:blue:4-5:6:green:1", {A: ((1, 3),), f"{A}:blue": ((4, 6),), f"{A}:green": ((1, 1),)}),
            (f"{A}:1-3,{A}:5", {A: ((1, 3), (5, 5))}),
        ],
    )
    def test_forms_of_the_server(self, text: str, expected: dict[str, object]) -> None:
        assert MysqlGtidSet.parse(text).intervals == expected

    @pytest.mark.parametrize(
        ("text", "printed"),
        [
            (f"{B}:2,{A}:7:1-5", f"{A}:1-5:7,{B}:2"),
            (f"{A}:green:1:Blue:4-5:6,{A}:1-3", f"{A}:1-3:blue:4-6:green:1"),
            (f"{B}:blue:1,{A}:blue:1:3", f"{A}:blue:1:3,{B}:blue:1"),
            (f"{A}:blue:1-2,{A}:blue:3", f"{A}:blue:1-3"),
        ],
    )
    def test_printed_as_the_server_does(self, text: str, printed: str) -> None:
        assert str(MysqlGtidSet.parse(text)) == printed

    def test_numbers_of_tags_are_their_own(self) -> None:
        some, tagged = MysqlGtidSet.parse(f"{A}:1-9"), MysqlGtidSet.parse(f"{A}:3-4:blue:3-4")
        assert not some.contains(tagged)
        assert str(tagged.minus(some)) == f"{A}:blue:3-4"
        assert str(some.minus(tagged)) == f"{A}:1-2:5-9"
        assert str(some.union(tagged)) == f"{A}:1-9:blue:3-4"

    @pytest.mark.parametrize(
        "text",
        ["x", A, "0-1-5", f"{A}:1;{B}:2"]
        + [f"{A}:{rest}" for rest in ("", "0", "5-3", "1-", "-3", "1:", "blue", "1:blue", "blue:green:1", "²")],
    )
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(OffsetInvalidError) as caught:
            MysqlGtidSet.parse(text)
        assert caught.value.hint

    @given(st.text(alphabet=f"{A[:9]}:-, \n1²٣_", max_size=60))
    def test_no_text_ends_in_another_error(self, text: str) -> None:
        for parse in (MysqlGtidSet.parse, MariadbGtidPosition.parse):
            try:
                parse(text)
            except OffsetInvalidError:
                continue


class TestMariadb:
    def test_text_form(self) -> None:
        position = MariadbGtidPosition.parse("1-2-30, 0-1-100")
        assert position.domains == {0: (1, 100), 1: (2, 30)}
        assert str(position) == "0-1-100,1-2-30"

    def test_contains_compares_each_domain(self) -> None:
        position = MariadbGtidPosition.parse("0-1-100,1-2-30")
        assert position.contains(MariadbGtidPosition.parse("0-9-100"))
        assert position.contains(MariadbGtidPosition())
        assert not position.contains(MariadbGtidPosition.parse("0-1-101"))
        assert not position.contains(MariadbGtidPosition.parse("2-1-1"))

    def test_add_replaces_the_domain_only(self) -> None:
        assert str(MariadbGtidPosition.parse("0-1-5,1-2-3").add(0, 7, 6)) == "0-7-6,1-2-3"

    @pytest.mark.parametrize("text", ["0-1", "0-1-2-3", "a-1-2", "0-1-2,0-1-3", "0-1-²", "0--1"])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(OffsetInvalidError):
            MariadbGtidPosition.parse(text)
