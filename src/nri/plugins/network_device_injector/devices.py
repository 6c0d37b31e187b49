"""The network devices that a pod asks for, read from its annotation, with defaults filled in. Pure.

Rules: a device is asked for by the pod, for all its containers share one network; each mistake is refused by the name
of the annotation, before anything is touched. Next: `nri.plugins.network_device_injector.move` moves them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nri.plugins.annotated import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.api.messages import PodSandbox
    from nri.plugins.annotated import Annotation

__all__ = ["KEYS", "NetworkDevice", "wanted_devices"]

#: The annotation's keys, the preferred one first: of the reference's code, of its documentation, and the old one.
KEYS = ("netdevice.noderesource.dev", "netdevices.noderesource.dev", "netdevices.nri.containerd.io")

#: Devices that one pod may ask for.
MOST_DEVICES = 64
#: A device's name that the kernel takes as it is: 15 bytes, none of them a blank, `/` or `:`. It would make `net0`
#: of `net%d`, and then the device would not be found again by the name that was asked for.
_NAME = re.compile(r"(?!\.{1,2}\Z)[^\s/:%\0]+")
_LONGEST_NAME = 15
#: The smallest and greatest number of bytes at once that IP can use at all; what the device can is its own matter.
_LEAST_MTU, _MOST_MTU = 68, 2**31 - 1


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
    found = find(pod, "", *KEYS)
    if found is None:
        return [], []
    given = found.many(NetworkDevice, "name")
    if len(given) > MOST_DEVICES:
        raise found.wrong("", f"it asks for {len(given)} devices", f"ask for {MOST_DEVICES} at most")
    devices = [_checked(found, f"[{place}]", device) for place, device in enumerate(given)]
    found.different((f"[{place}].new_name", device.new_name) for place, device in enumerate(devices))
    return devices, found.unknown


def _checked(found: Annotation, place: str, device: NetworkDevice) -> NetworkDevice:
    """The device with defaults filled in."""
    new_name = device.new_name or device.name
    for key, name in (("name", device.name), ("new_name", new_name)):
        if not _NAME.fullmatch(name) or len(name.encode()) > _LONGEST_NAME:
            reason = f"{name!r} is not the name of a network device"
            raise found.wrong(f"{place}.{key}", reason, f"write 1 to {_LONGEST_NAME} characters, no blank, /, : or %")
    if device.mtu and not _LEAST_MTU <= device.mtu <= _MOST_MTU:
        reason = f"{device.mtu} is not from {_LEAST_MTU} to {_MOST_MTU}"
        raise found.wrong(f"{place}.mtu", reason, "leave it out for what the device has")
    return device._replace(new_name=new_name, prefix=_prefix(found, place, device))


def _prefix(found: Annotation, place: str, device: NetworkDevice) -> int:
    """The prefix for the address; all bits of it if none is given."""
    if not device.address:
        if device.prefix:
            raise found.wrong(f"{place}.prefix", "it is given without an address", "add 'address: ...'")
        return 0
    try:
        bits = 8 * len(_parse(device.address))
    except ValueError:
        head, _, tail = device.address.partition("/")
        step = f"write 'address: {head}' and 'prefix: {tail}'" if tail else "write one such as 192.0.2.7 or 2001:db8::7"
        raise found.wrong(f"{place}.address", f"{device.address!r} is no IP address", step) from None
    if not 0 <= device.prefix <= bits:
        raise found.wrong(f"{place}.prefix", f"{device.prefix} is not from 0 to {bits}", "0 is all bits of the address")
    return device.prefix or bits


def _parse(address: str) -> bytes:
    """An address as bytes. An IPv4 address in the clothes of IPv6 (::ffff:192.0.2.7) is one of IPv4."""
    import ipaddress  # noqa: PLC0415 - only for pods that give a device an address

    if "%" in address:
        raise ValueError("the zone of an address is its device, which it is about to have")
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).packed
