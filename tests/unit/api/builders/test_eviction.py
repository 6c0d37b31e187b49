"""An eviction names a container and a reason."""

from __future__ import annotations

import pytest

from nri.api import messages as m
from nri.api.builders.eviction import Eviction


def test_an_eviction_has_a_container_and_a_reason() -> None:
    eviction = Eviction(m.Container(id="c1"), "too hot")
    assert eviction.message == m.ContainerEviction(container_id="c1", reason="too hot")
    assert (eviction.container_id, eviction.reason) == ("c1", "too hot")
    assert eviction == Eviction("c1", "too hot")
    assert repr(eviction) == "Eviction(container_id='c1', reason='too hot')"
    with pytest.raises(ValueError, match="container_id"):
        Eviction("")


def test_a_wrong_type_is_an_error_and_a_message_is_shown_by_its_type_only() -> None:
    with pytest.raises(TypeError, match="must be a Container or its id, not 5"):
        Eviction(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a Container or its id, not a PodSandbox"):
        Eviction(m.PodSandbox(id="p"))  # type: ignore[arg-type]
