"""The public names of packages exist and are loaded lazily; other names are errors."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
#: The public modules, as the documentation lists them.
_ROWS = re.findall(r"^\| (`nri.*?) \|", (DOCS / "concepts/stability.md").read_text(), re.MULTILINE)
PUBLIC = re.findall(r"`(nri[\w.]*)`", "".join(_ROWS))
FACES = [name for name in PUBLIC if hasattr(importlib.import_module(name), "__path__")]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_listed_public_name_exists(name: str) -> None:
    face = importlib.import_module(name)
    assert [entry for entry in face.__all__ if not hasattr(face, entry)] == []
    assert dir(face) == sorted(face.__all__)


def test_every_module_with_a_reference_page_is_public() -> None:
    pages = "".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))
    documented = set(re.findall(r"^\.\. (?:automodule|currentmodule):: (\S+)", pages, re.MULTILINE))
    below = {name for name in documented if name.startswith("nri.host.")}  # what the names of the face are, in detail
    assert documented - below <= set(PUBLIC)


@pytest.mark.parametrize("name", FACES)
def test_an_unknown_name_is_an_attribute_error_with_the_package(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'Pluggin'"):
        _ = importlib.import_module(name).Pluggin


@pytest.mark.parametrize("name", FACES)
def test_no_public_name_equals_the_name_of_a_module(name: str) -> None:
    # A lazy face with both gives the function or the module, as the imports before happen to be.
    face = importlib.import_module(name)
    assert not {path.stem for path in Path(face.__path__[0]).iterdir()} & set(face.__all__)


@pytest.mark.parametrize("name", ["errors.quote", "ttrpc.LATER", "mux.cut", "mux.pack"])
def test_removed_helpers_do_not_exist(name: str) -> None:
    module, _, helper = name.partition(".")
    assert not hasattr(importlib.import_module(f"nri.{module}"), helper)
