"""A package's names load when they are first used, and stay. `test_faces.py` has those of every package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from nri.lazy import lazy


@pytest.fixture
def face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The globals of a package with a module `below` that it has not loaded."""
    (tmp_path / "lazy_face").mkdir()
    (tmp_path / "lazy_face/below.py").write_text("one, two = 1, 2")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("lazy_face", "lazy_face.below"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return {"__name__": "lazy_face"}


def test_a_name_is_loaded_when_it_is_asked_for_and_then_is_the_packages_own(face: dict[str, object]) -> None:
    load, names = lazy(face, {"below": "one two"})
    assert names() == ["one", "two"]
    assert "lazy_face.below" not in sys.modules
    assert load("two") == 2
    assert face == {"__name__": "lazy_face", "two": 2}


def test_an_unknown_name_is_the_error_of_any_other_module(face: dict[str, object]) -> None:
    load, _ = lazy(face, {"below": "one"})
    with pytest.raises(AttributeError, match=r"^module 'lazy_face' has no attribute 'three'$"):
        load("three")


def test_the_module_is_not_hidden_by_its_function() -> None:
    assert importlib.import_module("nri").lazy is sys.modules["nri.lazy"]
