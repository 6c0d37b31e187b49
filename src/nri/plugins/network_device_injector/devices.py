"""The network devices that a pod's annotation requests; all containers of a pod share its network."""

from __future__ import annotations

import re
from typing import NamedTuple

from nri.plugins.annotations import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.api.messages import PodSandbox
    from nri.plugins.annotations import Annotation

#: The annotation's keys, the preferred key first: the key in the Go plugin's code, the key in its documentation, and
#: the old key.
KEYS = ("netdevice.noderesource.dev", "netdevices.noderesource.dev", "netdevices.nri.containerd.io")

#: Maximum number of devices that a pod may request.
MAX_DEVICES = 64
#: The kernel accepts a name of at most 15 bytes without blanks, `/` and `:`. It would replace `%d` by a number, so that
#: the device could not be found by its name.
_NAME = re.compile(r"(?!\.{1,2}\Z)[^\s/:%\0]+")
_MAX_NAME_BYTES = 15
#: The smallest MTU of IP; a device may have a narrower limit.
_MIN_MTU = 68
#: The greatest MTU that a request can contain; a device may have a narrower limit.
_MAX_MTU = 2**31 - 1


class NetworkDevice(NamedTuple):
    """A device of the host for a pod.

    Attributes:
        name: its name on the host.
        new_name: its name in the pod, or "" for the same name.
        address: its IPv4 or IPv6 address in the pod, or "" for no address.
        prefix: the length of the network prefix in bits, or 0 for all bits.
        mtu: the MTU in bytes, or 0 for the current MTU.
    """

    name: str
    new_name: str = ""
    address: str = ""
    prefix: int = 0
    mtu: int = 0

    @property
    def packed(self) -> bytes:
        """The address as 4 or 16 bytes, or b"" without an address."""
        return _parse(self.address) if self.address else b""


def wanted_devices(pod: PodSandbox) -> tuple[list[NetworkDevice], list[str]]:
    """Return the devices that a pod requests, and warnings. Raises Reject if the annotation is invalid."""
    annotation = find(pod, "", *KEYS)
    if annotation is None:
        return [], []
    rows = annotation.rows(NetworkDevice, "name")
    if len(rows) > MAX_DEVICES:
        raise annotation.refusal("", f"the pod requests {len(rows)} devices", f"request at most {MAX_DEVICES}")
    devices = [_checked_device(annotation, f"[{place}]", device) for place, device in enumerate(rows)]
    annotation.refuse_duplicates((f"[{place}].new_name", device.new_name) for place, device in enumerate(devices))
    return devices, annotation.warnings


def _checked_device(annotation: Annotation, place: str, device: NetworkDevice) -> NetworkDevice:
    """Check a device, and fill in defaults."""
    new_name = device.new_name or device.name
    for key, name in (("name", device.name), ("new_name", new_name)):
        if not _NAME.fullmatch(name) or len(name.encode()) > _MAX_NAME_BYTES:
            reason = f"{name!r} is not the name of a network device"
            raise annotation.refusal(
                f"{place}.{key}", reason, f"write 1 to {_MAX_NAME_BYTES} characters, no space, /, : or %"
            )
    if device.mtu and not _MIN_MTU <= device.mtu <= _MAX_MTU:
        reason = f"{device.mtu} is not between {_MIN_MTU} and {_MAX_MTU}"
        raise annotation.refusal(f"{place}.mtu", reason, "remove mtu to keep the device's MTU")
    return device._replace(new_name=new_name, prefix=_prefix(annotation, place, device))


def _prefix(annotation: Annotation, place: str, device: NetworkDevice) -> int:
    """The prefix length of the address. The default is all bits."""
    if not device.address:
        if device.prefix:
            raise annotation.refusal(f"{place}.prefix", "a prefix requires an address", "add 'address: ...'")
        return 0
    try:
        bits = 8 * len(_parse(device.address))
    except ValueError:
        head, _, tail = device.address.partition("/")
        step = (
            f"write 'address: {head}' and 'prefix: {tail}'" if tail else "write, for example, 192.0.2.7 or 2001:db8::7"
        )
        raise annotation.refusal(f"{place}.address", f"{device.address!r} is not an IP address", step) from None
    if not 0 <= device.prefix <= bits:
        raise annotation.refusal(
            f"{place}.prefix", f"{device.prefix} is not between 0 and {bits}", "0 is all bits of the address"
        )
    return device.prefix or bits


def _parse(address: str) -> bytes:
    """An address as bytes. A mapped address such as ::ffff:192.0.2.7 becomes IPv4."""
    import ipaddress  # noqa: PLC0415 - only for pods that give a device an address

    if "%" in address:
        raise ValueError("an address must not have a zone")
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).packed
