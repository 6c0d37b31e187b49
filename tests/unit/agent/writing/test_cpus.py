"""Lists of CPUs are parsed once and refused if no machine has that many CPUs."""

import pytest

from nri.agent.writing.cpus import MAX_CPUS, cpus
from nri.api import cpuset


def test_a_list_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpus("0-2,5") == ({0, 1, 2, 5}, "")
    assert cpus("") == (frozenset(), "")
    monkeypatch.setattr(cpuset, "parse", None)
    assert cpus("0-2,5") == ({0, 1, 2, 5}, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0-65535:1/1," * 4, "the limit is"),
        (f"0-{MAX_CPUS}", "8193 CPUs"),
        ("0-4294967295", "has a number above"),
        ("x\n", r"'x"),
        ("0," * 40_000, "80000 characters"),
    ],
)
def test_invalid_and_oversized_lists_are_refused_in_one_line(text: str, words: str) -> None:
    actual, reason = cpus(text)
    assert not actual and words in reason and reason.isprintable()
    assert cpus(f"0-{MAX_CPUS - 1}")[1] == ""
