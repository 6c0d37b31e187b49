"""Lists of CPUs: parsing, formatting and unions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri.api import cpuset

SETS = st.frozensets(st.integers(0, 300))


@given(SETS)
def test_a_set_is_parsed_from_its_text(numbers: frozenset[int]) -> None:
    text = cpuset.to_text(numbers)
    assert cpuset.parse(text) == numbers
    assert cpuset.to_text(cpuset.parse(text)) == text, "there is one shortest list"


@given(st.text(alphabet="0123456789-,:/ x", max_size=12))
def test_any_text_is_a_list_or_an_error_with_a_reason(text: str) -> None:
    try:
        numbers = cpuset.parse(text)
    except ValueError as error:
        assert str(error).startswith("'"), "the part that is wrong is named"
    else:
        assert all(0 <= number <= cpuset.MAX_NUMBER for number in numbers)


@given(SETS, SETS)
def test_a_comma_joins_two_lists_to_their_union(one: frozenset[int], two: frozenset[int]) -> None:
    assert cpuset.parse(f"{cpuset.to_text(one)},{cpuset.to_text(two)}") == one | two
