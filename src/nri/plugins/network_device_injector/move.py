"""Move network devices from the host to a pod and back.

A device is renamed only while it is down, and has the unique name `temp_<index>` while it is moved. The device's name,
MTU and alias on the host are stored in its alias, because the plugin may be restarted before the pod ends.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from typing import NamedTuple, Self

from nri.errors import NriError, describe
from nri.files import open_regular
from nri.plugins.network_device_injector.namespace import OWN
from nri.plugins.network_device_injector.netlink import Netlink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nri.plugins.network_device_injector.devices import NetworkDevice
    from nri.plugins.network_device_injector.netlink import Device, Record

#: The kernel's limit for an alias.
_MAX_ALIAS_BYTES = 255
_ORIGIN = re.compile(r"([^\s/:%]{1,15}) nri:([0-9]{1,10}):(.*)", re.DOTALL)
#: The greatest MTU that a request can contain.
_MAX_MTU = 2**31 - 1


class MoveError(NriError):
    """A device could not be moved."""


class Origin(NamedTuple):
    """The name, MTU and alias of a device on the host, stored in its alias in the pod."""

    name: str
    mtu: int
    alias: str

    def __str__(self) -> str:
        return f"{self.name} nri:{self.mtu}:{self.alias}".encode()[:_MAX_ALIAS_BYTES].decode(errors="ignore")

    @classmethod
    def read(cls, alias: str) -> Origin | None:
        """Parse an alias. Returns None if it is not an origin: a pod with CAP_NET_ADMIN may write anything."""
        match = _ORIGIN.fullmatch(alias)
        if match is None or int(match[2]) > _MAX_MTU:
            return None
        return cls(match[1], int(match[2]), match[3])


class Sides:
    """Open sockets in the host's network and in a pod's network.

    Args:
        pod_path: the file of the pod's network namespace.

    Raises:
        OSError: the file does not exist, or the namespace cannot be entered.
    """

    def __init__(self, pod_path: str) -> None:
        with ExitStack() as opened:
            self.host = opened.enter_context(Netlink())
            self.pod = opened.enter_context(Netlink(pod_path))
            self._host_file = _open(OWN, opened)
            self._pod_file = _open(pod_path, opened)
            self._close = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()

    # -- to the pod ---------------------------------------------------------------------------------------------------

    def move_in(self, devices: Iterable[NetworkDevice]) -> None:
        """Move devices to the pod: all of them, or none.

        Raises:
            MoveError: a device could not be moved. All steps were undone, addresses and routes included, except for
                the steps in `__notes__`.
        """
        undo: list[tuple[str, Callable[[], None]]] = []
        device = None
        try:
            for device in devices:
                self._move_in(device, undo)
        except (OSError, MoveError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else describe(error)
            failed = MoveError(f"network device {device.name if device else ''}: {reason}")
            for what, step in reversed(undo):
                try:
                    step()
                except OSError as trouble:
                    failed.add_note(f"{what}: {trouble.strerror}")
            raise failed from None

    def _move_in(self, request: NetworkDevice, undo: list[tuple[str, Callable[[], None]]]) -> None:
        host, pod = self.host, self.pod
        device = host.device(request.name)
        if device is None:
            raise MoveError("not found on the host")
        if pod.device(request.new_name) is not None:
            raise MoveError(f"the pod already has a device {request.new_name}")
        records = host.records(device.number)
        temporary = f"temp_{device.number}"

        def push_undo(what: str, back: Callable[[], None]) -> None:
            undo.append((f"{request.name}: {what}", back))

        push_undo("addresses, routes, up", lambda: self._put_back(device, records))
        host.set_up(device.number, False)
        host.rename(device.number, temporary)
        push_undo("name", lambda: host.rename(_index(host, temporary), device.name))
        # These steps are undone on the host only: a device that cannot be moved back keeps its origin for
        # `settle_strays`.
        push_undo("alias", lambda: host.set_alias(_index(host, temporary), device.alias))
        host.move(device.number, self._pod_file)
        push_undo("move back", lambda: pod.move(_index(pod, temporary), self._host_file))
        index = _index(pod, temporary)
        pod.set_alias(index, str(Origin(device.name, device.mtu, device.alias)))
        pod.rename(index, request.new_name)
        push_undo("temporary name", lambda: pod.rename(index, temporary))
        if request.mtu:
            pod.set_mtu(index, request.mtu)
            push_undo("MTU", lambda: pod.set_mtu(index, device.mtu))
        if request.address:
            pod.add_address(index, request.packed, request.prefix)
        pod.set_up(index, True)
        push_undo("down", lambda: pod.set_up(index, False))

    def _put_back(self, device: Device, records: Iterable[Record]) -> None:
        """Restore the state of a device that is back on the host."""
        if _index(self.host, device.name) != device.number:
            raise OSError(0, "the kernel assigned another number, so addresses and routes are lost")
        if device.up:
            self.host.set_up(device.number, True)
        for record in records:
            self.host.put_back(record)

    # -- back to the host ---------------------------------------------------------------------------------------------

    def move_out(self, request: NetworkDevice, *, is_from_host: bool = False) -> bool:
        """Move a device back to the host, where it stays down. Returns False if the pod does not have the device.

        Args:
            request: the device in the pod's annotation.
            is_from_host: the device certainly came from the host. Otherwise the device's alias must prove that: a pod
                with a refused request may have its own device of that name, such as eth0.

        Raises:
            OSError: a step failed; the device is still in the pod, or on the host under a temporary name.
        """
        device = self.pod.device(request.new_name)
        origin = Origin.read(device.alias) if device else None
        # The Go plugin stores the name on the host as the alias.
        if device is None or not (is_from_host or origin or device.alias == request.name):
            return False
        temporary = f"temp_{device.number}"
        self.pod.set_up(device.number, False)
        self.pod.rename(device.number, temporary)
        try:
            self.pod.move(device.number, self._host_file)
        except OSError:
            self.pod.rename(device.number, device.name)
            self.pod.set_up(device.number, device.up)
            raise
        settle(self.host, temporary, origin or Origin(request.name, device.mtu, ""))
        return True


def settle(host: Netlink, name: str, origin: Origin) -> None:
    """Restore MTU, name and alias of a device that is back on the host."""
    index = _index(host, name)
    host.set_mtu(index, origin.mtu)
    host.rename(index, origin.name)
    host.set_alias(index, origin.alias)


def settle_strays(host: Netlink) -> tuple[list[str], list[str]]:
    """Restore devices that the kernel has moved to the host because their pod's network has ended.

    Returns:
        The names of the restored devices on the host, and a reason for each device that could not be restored.
    """
    settled: list[str] = []
    failed: list[str] = []
    for device in host.devices():
        origin = Origin.read(device.alias)
        if origin is None:
            continue
        try:
            host.set_up(device.number, False)
            settle(host, device.name, origin)
            settled.append(origin.name)
        except OSError as error:
            failed.append(f"{device.name}, which was {origin.name}: {error.strerror}")
    return settled, failed


def _index(side: Netlink, name: str) -> int:
    """The number of a device. Raises OSError if it does not exist."""
    device = side.device(name)
    if device is None:
        raise OSError(19, f"device {name} does not exist any more")
    return device.number


def _open(path: str, opened: ExitStack) -> int:
    descriptor = open_regular(path)
    opened.callback(os.close, descriptor)
    return descriptor
