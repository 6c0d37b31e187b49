"""The catalog's errors as lines that name the command's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.api.naming import RUNTIME_SERVICE
from nri.cli.errors import USAGE, Failure
from nri.cli.support.catalog import find, open_catalog, resolve
from tests.support.greeter import GREETER


def test_a_method_that_is_known_is_found() -> None:
    catalog = open_catalog(None)
    assert find(catalog, *resolve(catalog, "Runtime/RegisterPlugin")).name == "RegisterPlugin"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Hello", '"Hello" is not SERVICE/METHOD, such as nri.pkg.api.v1alpha1.Runtime/RegisterPlugin'),
        (f"{GREETER}/Hello", f"the messages of {GREETER} are not known here: give --descriptor-set FILE, or --hex"),
        (
            "Runtime/RegisterPlugn",
            f'{RUNTIME_SERVICE} has no method RegisterPlugn (did you mean "RegisterPlugin"?)',
        ),
    ],
)
def test_a_method_that_is_not_known_is_wrong_usage(text: str, line: str) -> None:
    catalog = open_catalog(None)
    with pytest.raises(Failure) as caught:
        find(catalog, *resolve(catalog, text))
    assert (caught.value.message, caught.value.code) == (line, USAGE)


def test_what_is_no_descriptor_set_is_wrong_usage_with_the_way_to_one(tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    path.write_bytes(b"\xff\xff")
    with pytest.raises(Failure) as caught:
        open_catalog(path)
    step = f"Make one: protoc --include_imports --descriptor_set_out={path} ..."
    assert (caught.value.message, caught.value.code) == (f"{path}: not a descriptor set. {step}", USAGE)
