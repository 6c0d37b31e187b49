"""Lists of CPUs in the kernel's format."""

from __future__ import annotations

import time

import pytest

from nri.api import cpuset


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", []),
        ("0", [0]),
        ("0-3", [0, 1, 2, 3]),
        ("8,0-2", [0, 1, 2, 8]),
        ("1,1-2", [1, 2]),
        (" 0 , 2-3 ,", [0, 2, 3]),
        ("0-7:2/4", [0, 1, 4, 5]),
        ("2-9:1/3", [2, 5, 8]),
        ("65535", [65535]),
    ],
)
def test_a_list_is_parsed_to_its_numbers(text: str, numbers: list[int]) -> None:
    assert sorted(cpuset.parse(text)) == numbers


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", "'a' is not a number or a range"),
        ("-1", "'-1' is not a number"),
        ("0-", "'0-' is not a number"),
        ("1.5", "'1.5' is not a number"),
        ("٣", "'٣' is not a number"),
        ("0 1", "'0 1' is not a number"),
        ("3-1", "'3-1' ends before it begins"),
        ("4-3", "'4-3' ends before it begins"),
        ("65536", "'65536' has a number above 65535"),
        ("0-" + "9" * 5000, "has a number above"),
        ("0-7:3/2", "'0-7:3/2' is not a range of groups"),
        ("0-7:0/2", "is not a range of groups"),
        ("0-7:2", "is not a number"),
        ("5:1/2", "is not a range of groups"),
    ],
)
def test_a_list_that_the_kernel_refuses_is_an_error_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        cpuset.parse(text)


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([5], "5"), ([3, 1, 2, 1, 8], "1-3,8"), ([0, 2, 4], "0,2,4")])
def test_numbers_are_written_as_the_shortest_list(numbers: list[int], text: str) -> None:
    assert cpuset.to_text(numbers) == text


@pytest.mark.parametrize("word", ["0-65535", "0-65535:1/2", "0-8191"])
def test_a_list_with_many_repetitions_is_parsed_in_linear_time(word: str) -> None:
    text = ",".join([word] * ((256 << 10) // len(word)))  # as long as an annotation of a pod may be
    before = time.process_time()
    with pytest.raises(ValueError, match="with repetitions"):
        cpuset.parse(text)
    assert time.process_time() - before < 2


def test_many_ranges_with_groups_are_parsed_in_time() -> None:
    before = time.process_time()
    assert cpuset.parse(",".join(["0-65535:1/65535"] * 15_000)) == {0, 65535}
    assert time.process_time() - before < 2
