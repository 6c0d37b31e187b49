"""Sets of characters: ASCII's classes, Unicode's categories, and all forms of a letter."""

from __future__ import annotations

import pytest

from nri.plugins.hook_injector.regex.characters import (
    CharacterSet,
    Item,
    escaped_class,
    forms_of,
    named_class,
    one,
    unicode_class,
)


def test_a_set_has_what_any_part_has_and_its_opposite_the_rest() -> None:
    items = (one("a"), Item((("0", "9"),)))
    assert [character for character in "a5b" if CharacterSet(items).matches(character)] == ["a", "5"]
    assert [character for character in "a5b" if CharacterSet(items, negated=True).matches(character)] == ["b"]


def test_case_is_that_of_unicode_and_of_no_country() -> None:
    assert set(forms_of("k")) == {"k", "K", "\u212a"}
    assert set(forms_of("\u03c3")) == {"\u03c3", "\u03c2", "\u03a3"}
    assert set(forms_of("ß")) == {"ß", "ẞ"}
    assert forms_of("\u0131") == "\u0131" and forms_of("\u0130") == "\u0130" and set(forms_of("i")) == {"i", "I"}
    assert CharacterSet((one("k"),), fold=True).matches("\u212a")
    assert not CharacterSet((one("k"),), negated=True, fold=True).matches("K")


def test_classes_are_found_by_name_with_where_they_end() -> None:
    assert escaped_class(r"\dx", 0) == (Item((("0", "9"),)), 2)
    assert escaped_class(r"\Dx", 0) == (Item((("0", "9"),), True), 2)
    assert escaped_class("d", 0) is None
    assert named_class("[:^upper:]x", 0) == (Item((("A", "Z"),), True), 10)
    assert named_class("[upper]", 0) is None
    assert unicode_class(r"\p{^Lu}x", 0) == (Item((), True, "Lu"), 7)
    assert unicode_class(r"\Pnx"[:2] + "Nx", 0) == (Item((), True, "N"), 3)
    assert unicode_class("p", 0) is None


def test_unknown_classes_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"no class \[:letter:\]; there are alnum"):
        named_class("[:letter:]", 0)
    with pytest.raises(ValueError, match=r"p\{Greek\}: only general categories"):
        unicode_class(r"\p{Greek}", 0)
    with pytest.raises(ValueError, match="only general categories"):
        unicode_class(r"\p", 0)
