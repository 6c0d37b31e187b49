"""The content of a CDI file."""

import pytest

from nri.oci.cdi.format import Edits, IntelRdt


def test_edits_that_do_nothing_are_empty() -> None:
    edits = Edits()
    assert edits.is_empty()
    edits.env = []
    assert edits.is_empty()


@pytest.mark.parametrize("name", ["env", "deviceNodes", "netDevices", "hooks", "mounts", "additionalGids"])
def test_edits_that_do_something_are_not(name: str) -> None:
    edits = Edits()
    setattr(edits, name, [1])
    assert not edits.is_empty()
    edits = Edits()
    edits.intelRdt = IntelRdt()
    assert not edits.is_empty()
