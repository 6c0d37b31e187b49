"""The protocol of a transport."""

from __future__ import annotations

from nri.agent.transports import Transport
from nri.agent.transports.nri import NriTransport


def test_the_nri_transport_has_all_methods_of_the_protocol() -> None:
    words = [name for name in (*vars(Transport), "start", "stop", "health") if not name.startswith("_")]
    assert {"rules_changed", "start", "stop", "health"} <= set(words)
    assert [name for name in words if not hasattr(NriTransport, name)] == []
