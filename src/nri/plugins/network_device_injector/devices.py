"""The network devices that a pod asks for, read from its annotation, with defaults filled in. Pure.

Rules: a device is asked for by the pod, for all its containers share one network; each mistake is refused by the name
of the annotation, before anything is touched. Next: `nri.plugins.network_device_injector.move` moves them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nri.plugins.annotations import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.api.messages import PodSandbox
    from nri.plugins.annotations import Annotation

__all__ = ["KEYS", "NetworkDevice", "wanted_devices"]

#: The annotation's keys, the preferred one first: of the reference's code, of its documentation, and the old one.
KEYS = ("netdevice.noderesource.dev", "netdevices.noderesource.dev", "netdevices.nri.containerd.io")

#: Devices that one pod may ask for.
MAX_DEVICES = 64
#: A device's name that the kernel takes as it is: 15 bytes, none of them a blank, `/` or `:`. It would make `net0`
#: of `net%d`, and then the device would not be found again by the name that was asked for.
_NAME = re.compile(r"(?!\.{1,2}\Z)[^\s/:%\0]+")
_MAX_NAME_BYTES = 15
#: The smallest and greatest number of bytes at once that IP can use at all; what the device can is its own matter.
_MIN_MTU, _MAX_MTU = 68, 2**31 - 1


class NetworkDevice(NamedTuple):
    """A device of the host for a pod.

    Attributes:
        name: its name on the host.
        new_name: its name in the pod; "" for the same.
        address: its address there, IPv4 or IPv6; "" for none.
        prefix: bits of the address that its network has; 0 for all.
        mtu: bytes that it sends at once; 0 for what it has.
    """

    name: str
    new_name: str = ""
    address: str = ""
    prefix: int = 0
    mtu: int = 0

    @property
    def packed(self) -> bytes:
        """The address as 4 or 16 bytes; empty if there is none."""
        return _parse(self.address) if self.address else b""


def wanted_devices(pod: PodSandbox) -> tuple[list[NetworkDevice], list[str]]:
    """The devices that a pod asks for, and what was read past in the annotation, as warnings.

    Raises:
        Reject: the annotation holds something that cannot be used.
    """
    annotation = find(pod, "", *KEYS)
    if annotation is None:
        return [], []
    rows = annotation.rows(NetworkDevice, "name")
    if len(rows) > MAX_DEVICES:
        raise annotation.refusal("", f"it asks for {len(rows)} devices", f"ask for {MAX_DEVICES} at most")
    devices = [_checked_device(annotation, f"[{place}]", device) for place, device in enumerate(rows)]
    annotation.refuse_duplicates((f"[{place}].new_name", device.new_name) for place, device in enumerate(devices))
    return devices, annotation.warnings


def _checked_device(annotation: Annotation, place: str, device: NetworkDevice) -> NetworkDevice:
    """The device with defaults filled in."""
    new_name = device.new_name or device.name
    for key, name in (("name", device.name), ("new_name", new_name)):
        if not _NAME.fullmatch(name) or len(name.encode()) > _MAX_NAME_BYTES:
            reason = f"{name!r} is not the name of a network device"
            raise annotation.refusal(
                f"{place}.{key}", reason, f"write 1 to {_MAX_NAME_BYTES} characters, no blank, /, : or %"
            )
    if device.mtu and not _MIN_MTU <= device.mtu <= _MAX_MTU:
        reason = f"{device.mtu} is not from {_MIN_MTU} to {_MAX_MTU}"
        raise annotation.refusal(f"{place}.mtu", reason, "leave it out for what the device has")
    return device._replace(new_name=new_name, prefix=_prefix(annotation, place, device))


def _prefix(annotation: Annotation, place: str, device: NetworkDevice) -> int:
    """The prefix for the address; all bits of it if none is given."""
    if not device.address:
        if device.prefix:
            raise annotation.refusal(f"{place}.prefix", "it is given without an address", "add 'address: ...'")
        return 0
    try:
        bits = 8 * len(_parse(device.address))
    except ValueError:
        head, _, tail = device.address.partition("/")
        step = f"write 'address: {head}' and 'prefix: {tail}'" if tail else "write one such as 192.0.2.7 or 2001:db8::7"
        raise annotation.refusal(f"{place}.address", f"{device.address!r} is no IP address", step) from None
    if not 0 <= device.prefix <= bits:
        raise annotation.refusal(
            f"{place}.prefix", f"{device.prefix} is not from 0 to {bits}", "0 is all bits of the address"
        )
    return device.prefix or bits


def _parse(address: str) -> bytes:
    """An address as bytes. An IPv4 address in the clothes of IPv6 (::ffff:192.0.2.7) is one of IPv4."""
    import ipaddress  # noqa: PLC0415 - only for pods that give a device an address

    if "%" in address:
        raise ValueError("the zone of an address is its device, which it is about to have")
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).packed
