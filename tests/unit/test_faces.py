"""The faces of packages: their names are there, loaded when they are used, and others are an error."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

FACES = ["nri", "nri.adaptation", "nri.config", "nri.metrics", "nri.mux", "nri.oci", "nri.testing", "nri.ttrpc"]


@pytest.mark.parametrize("name", FACES)
def test_every_public_name_is_there_and_listed(name: str) -> None:
    face = importlib.import_module(name)
    assert [each for each in face.__all__ if not hasattr(face, each)] == []
    assert set(face.__all__) <= set(dir(face))


@pytest.mark.parametrize("name", FACES)
def test_a_name_that_is_not_there_is_an_attribute_error_with_the_package(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'Pluggin'"):
        _ = importlib.import_module(name).Pluggin


@pytest.mark.parametrize("name", FACES)
def test_no_public_name_is_that_of_a_module_which_would_take_its_place_once_imported(name: str) -> None:
    # A lazy face with both gives the function or the module, as the imports before happen to be.
    face = importlib.import_module(name)
    assert not {path.stem for path in Path(face.__path__[0]).iterdir()} & set(face.__all__)
