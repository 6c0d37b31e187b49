"""UpdateContainerResources: what the client wants, what plugins make of it, and what the OCI runtime gets.

Rules: without NRI, and where no plugin answers, the request is put into force as it is; what plugins answer replaces
it; what they want of others is done after it, and taken back if it fails. Next: :mod:`nri.engine.replay`.
"""

from __future__ import annotations

import logging

from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.resources import Resources, result_of
from nri.engine.spec import container_resources
from nri.engine.state.tables import next_container_state

__all__ = ["Updates"]

_log = logging.getLogger(__name__)


class Updates:
    """Changes containers' resources as clients ask."""

    def __init__(self, inventory: Inventory, machinery: Machinery, domain: Domain, resources: Resources) -> None:
        self._inventory, self._machinery, self._domain, self._resources = inventory, machinery, domain, resources

    def update(self, container: ContainerEntry, linux: pb.LinuxContainerResources, annotations: dict[str, str]) -> None:
        """Give a container other resources. Raises RequestError, WrongState, NriError."""
        next_container_state(container.id, container.record.state, "update")
        notes: list[str] = []
        told = container_resources(
            linux, self._machinery.machine_of(container.record.runtime_handler), notes, field="linux"
        )
        for note in notes:
            _log.info("container %s: %s", container.id, note)
        wanted = convert.to_nri(linux, "linux").value
        with self._domain.block():
            reply = self._domain.update_container(container, wanted)
            changed = reply is not None and reply.changed
            resources = reply.resources if reply is not None else wanted
            result = result_of(container.id, resources)
            try:
                numbers = None if reply is None else reply.numbers
                self._resources.change(container, resources, result, None if changed else told, numbers)
            except BaseException:
                if reply is not None:
                    reply.abort()
                raise
            for row in result.fields:
                if row.reason:
                    _log.info("container %s: %s", container.id, row)
            if annotations:
                self._inventory.put(container, annotations={**container.record.annotations, **annotations})
            if reply is not None:
                self._domain.follow(reply, [result] if changed else ())
            self._domain.post_update(container)
