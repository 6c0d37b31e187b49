"""Move network devices from the host to a pod and back, with the way back kept for each step that was taken.

One job: the order of the steps. Devices are renamed only while they are down, and travel under a name that nothing else
has, `temp_<index>`. The facts that are needed when the pod ends, the device's name on the host, its MTU and its alias,
travel in the alias: the plugin may have been restarted meanwhile. Rules: `move_in` leaves everything as it was if a
step fails, addresses and routes included; `move_out` takes no device of the pod's own, and leaves one down, so that it
does nothing on the host by itself. Next: `nri.plugins.network_device_injector.plugin`.
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

__all__ = ["MoveError", "Origin", "Sides"]

#: Bytes of an alias.
_MAX_ALIAS_BYTES = 255
_ORIGIN = re.compile(r"([^\s/:%]{1,15}) nri:([0-9]{1,10}):(.*)", re.DOTALL)
#: The greatest MTU that a request can hold, and the kernel takes.
_MAX_MTU = 2**31 - 1


class MoveError(NriError):
    """A device could not be moved; the text says which, and at which step."""


class Origin(NamedTuple):
    """The name, MTU and alias that a device had on the host, as its alias in the pod keeps them."""

    name: str
    mtu: int
    alias: str

    def __str__(self) -> str:
        return f"{self.name} nri:{self.mtu}:{self.alias}".encode()[:_MAX_ALIAS_BYTES].decode(errors="ignore")

    @classmethod
    def read(cls, alias: str) -> Origin | None:
        """The origin that an alias holds, or None if it holds none: a pod with CAP_NET_ADMIN may write anything."""
        match = _ORIGIN.fullmatch(alias)
        if match is None or int(match[2]) > _MAX_MTU:
            return None
        return cls(match[1], int(match[2]), match[3])


class Sides:
    """The host's network and that of a pod, both open.

    Args:
        pod_path: file of the pod's network namespace.

    Raises:
        OSError: it is not there, or cannot be entered.
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
            MoveError: one could not be moved; all that were are back. `__notes__` say what could not be undone.
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
            raise MoveError("the host has no such device")
        if pod.device(request.new_name) is not None:
            raise MoveError(f"the pod has a device {request.new_name} already")
        records = host.records(device.number)
        temporary = f"temp_{device.number}"

        def did(what: str, back: Callable[[], None]) -> None:
            undo.append((f"{request.name}: {what}", back))

        did("addresses, routes, up", lambda: self._put_back(device, records))
        host.set_up(device.number, False)
        host.rename(device.number, temporary)
        did("name", lambda: host.rename(_index(host, temporary), device.name))
        # Undone on the host: a device that cannot be moved back must keep its origin, for `settle_strays`.
        did("alias", lambda: host.set_alias(_index(host, temporary), device.alias))
        host.move(device.number, self._pod_file)
        did("move back", lambda: pod.move(_index(pod, temporary), self._host_file))
        index = _index(pod, temporary)
        pod.set_alias(index, str(Origin(device.name, device.mtu, device.alias)))
        pod.rename(index, request.new_name)
        did("temporary name", lambda: pod.rename(index, temporary))
        if request.mtu:
            pod.set_mtu(index, request.mtu)
            did("MTU", lambda: pod.set_mtu(index, device.mtu))
        if request.address:
            pod.add_address(index, request.packed, request.prefix)
        pod.set_up(index, True)
        did("down", lambda: pod.set_up(index, False))

    def _put_back(self, device: Device, records: Iterable[Record]) -> None:
        """Give a device that is on the host again the state that it had there."""
        if _index(self.host, device.name) != device.number:
            raise OSError(0, "the kernel gave it another number, so its addresses and routes are lost")
        if device.up:
            self.host.set_up(device.number, True)
        for record in records:
            self.host.put_back(record)

    # -- back to the host ---------------------------------------------------------------------------------------------

    def move_out(self, request: NetworkDevice, *, is_from_host: bool = False) -> bool:
        """Move a device back to the host; False if the pod does not have it (any more).

        Args:
            request: the device as the pod has asked for it.
            is_from_host: whether it is known to have come from the host. If not, its alias must say so: the pod of a request
                that was refused may have one of its own by that name, such as its eth0.

        Raises:
            OSError: a step failed; the device is where it was before that, or on the host under a temporary name.
        """
        device = self.pod.device(request.new_name)
        origin = Origin.read(device.alias) if device else None
        if device is None or not (
            is_from_host or origin or device.alias == request.name
        ):  # the last is the reference's alias
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
    """Make a device that has come back to the host what it was there, but for being up."""
    index = _index(host, name)
    host.set_mtu(index, origin.mtu)
    host.rename(index, origin.name)
    host.set_alias(index, origin.alias)


def settle_strays(host: Netlink) -> tuple[list[str], list[str]]:
    """Settle devices that the kernel has brought back to the host because their pod's network had ended.

    Returns:
        their names on the host, and why others could not be settled: one must not keep the rest from it.
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
    """The number of a device that is there."""
    device = side.device(name)
    if device is None:
        raise OSError(19, f"there is no device {name} any more")
    return device.number


def _open(path: str, opened: ExitStack) -> int:
    descriptor = open_regular(path)
    opened.callback(os.close, descriptor)
    return descriptor
