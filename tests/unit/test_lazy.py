"""A package's names are loaded on first use. `test_faces.py` tests the names of every package."""

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


def test_a_name_is_loaded_on_first_use_and_kept(face: dict[str, object]) -> None:
    load, names = lazy(face, {"below": "one two"})
    assert names() == ["one", "two"]
    assert "lazy_face.below" not in sys.modules
    assert load("two") == 2
    assert face == {"__name__": "lazy_face", "two": 2}


def test_an_unknown_name_raises_the_usual_attribute_error(face: dict[str, object]) -> None:
    load, _ = lazy(face, {"below": "one"})
    with pytest.raises(AttributeError, match=r"^module 'lazy_face' has no attribute 'three'$"):
        load("three")


def test_the_function_lazy_does_not_hide_its_module() -> None:
    assert importlib.import_module("nri").lazy is sys.modules["nri.lazy"]
