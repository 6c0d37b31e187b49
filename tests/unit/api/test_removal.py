"""Removal marks: a dash in front of a key."""

from nri.api import removal


def test_a_removal_mark_is_one_leading_dash() -> None:
    assert removal.mark("k") == "-k"
    assert removal.split("-k") == ("k", True)
    assert removal.split("--k") == ("-k", True)
    assert removal.split("k-") == ("k-", False)
    assert removal.split("-") == ("", True)
    assert removal.is_marked("-k")


def test_an_empty_key_is_never_marked() -> None:
    assert removal.split("") == ("", False)
    assert not removal.is_marked("")
