"""Events as provenance is told of them, for tests of histories: creations and updates with plugins' answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nri.adaptation.audit.provenance import Provenance
from nri.api import messages as m
from nri.rules import Rules


class Clock:
    """A clock that goes on by a second whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 1_000_000_000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def ids(provenance: Provenance, prefix: str = "") -> list[str]:
    """The containers of which something is remembered, by id; those whose ids begin so."""
    return sorted(one.id for one in provenance.containers() if one.id.startswith(prefix))


def env(**variables: str) -> m.CreateContainerResponse:
    """An answer that sets variables; `remove_A` removes A."""
    pairs = [m.KeyValue(key=key.replace("remove_", "-"), value=value) for key, value in variables.items()]
    return m.CreateContainerResponse(adjust=m.ContainerAdjustment(env=pairs))


def shares(value: int, container: str = "c1", kind: Any = m.UpdateContainerResponse) -> Any:
    """An answer that updates a container's CPU shares."""
    reply = kind()
    update = reply.update.add(container_id=container)
    update.linux.resources.cpu.shares.value = value
    return reply


def create(
    provenance: Provenance,
    *replies: tuple[str, Any],
    container: str = "c1",
    failed: str = "",
    touched: Collection[str] = (),
    **parts: Any,
) -> None:
    """Record the creation of a container with these `parts`, and what plugins answered."""
    request = m.CreateContainerRequest(
        pod=m.PodSandbox(namespace="prod", name="web-1"), container=m.Container(id=container, name="web", **parts)
    )
    encoded = [(plugin, reply.SerializeToString()) for plugin, reply in replies]
    provenance.record("CreateContainer", container, request.SerializeToString(), encoded, touched, failed=failed)


def update(
    provenance: Provenance,
    *replies: tuple[str, Any],
    value: int | None = None,
    container: str = "c1",
    event: str = "UpdateContainer",
) -> None:
    """Record an update of a container's CPU shares, and what plugins answered."""
    request = m.UpdateContainerRequest(container=m.Container(id=container))
    if value is not None:
        request.linux_resources.cpu.shares.value = value
    encoded = [(plugin, reply.SerializeToString()) for plugin, reply in replies]
    provenance.record(event, container, request.SerializeToString(), encoded)


def steps(provenance: Provenance, container: str = "c1", rules: Rules = Rules.DEFAULT) -> list[tuple[Any, ...]]:
    """The steps of a container's history: event, plugin, field, key, before, after."""
    explanation = provenance.explain(container, rules)
    assert explanation is not None, f"nothing is known of {container}"
    return [(step.event, step.plugin, *step.change[1:]) for step in explanation.steps]
