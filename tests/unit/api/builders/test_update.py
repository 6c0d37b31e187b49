"""An update is for one container and knows whether it changes resources."""

from __future__ import annotations

import pytest

from nri.api import messages as m
from nri.api.builders.update import Update


def test_an_update_accepts_a_container_or_its_id() -> None:
    assert Update(m.Container(id="c1")).container_id == Update("c1").container_id == "c1"
    assert Update("a").set_container_id("b").container_id == "b"
    with pytest.raises(ValueError, match="container_id must not be empty"):
        Update("")
    with pytest.raises(TypeError, match="container must be a Container or its id, not 5"):
        Update(5)


def test_has_resources_is_true_only_for_updates_with_resources() -> None:
    assert not Update("c").has_resources
    assert not Update("c").set_ignore_failure().has_resources
    assert Update("c").set_ignore_failure().ignore_failure
    assert Update("c").set_memory_limit(0).has_resources
