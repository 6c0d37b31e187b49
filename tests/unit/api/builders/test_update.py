"""An update is of one container, and knows whether it changes anything."""

from __future__ import annotations

import pytest

from nri.api import messages as m
from nri.api.builders.update import Update


def test_an_update_names_its_container_by_id_or_by_the_container_itself() -> None:
    assert Update(m.Container(id="c1")).container_id == Update("c1").container_id == "c1"
    assert Update("a").set_container_id("b").container_id == "b"
    with pytest.raises(ValueError, match="container_id must not be empty"):
        Update("")
    with pytest.raises(TypeError, match="container must be a Container or its id, not 5"):
        Update(5)


def test_an_update_tells_whether_it_has_resources() -> None:
    assert not Update("c").has_resources
    assert not Update("c").set_ignore_failure().has_resources
    assert Update("c").set_ignore_failure().ignore_failure
    assert Update("c").set_memory_limit(0).has_resources
