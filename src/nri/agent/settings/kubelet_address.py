"""The address of a kubelet. An address is refused if the token would be sent to it in clear text."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit


class KubeletAddress(NamedTuple):
    """The address at which a kubelet listens.

    Attributes:
        tls: whether the kubelet is queried over HTTPS.
        loopback: whether it is a loopback address, so that no packet leaves this machine.
    """

    tls: bool
    host: str
    port: int
    loopback: bool


def kubelet_address(text: str) -> KubeletAddress:
    """Parse `https://HOST:PORT`. Raises ValueError if the address is invalid or unsafe; the error does not quote it."""
    try:
        where = urlsplit(text)
        host, port = where.hostname, where.port
    except ValueError as error:  # an invalid port, unbalanced brackets
        raise ValueError(f"is not an address: {error}") from None
    if where.scheme not in ("https", "http") or not host:
        raise ValueError("is not an address")
    if not port:
        raise ValueError("has no port")
    loopback = _is_loopback(host)
    if where.scheme == "http" and not loopback:
        raise ValueError("would send the service account's token in clear text; http is allowed for loopback only")
    return KubeletAddress(where.scheme == "https", host, port, loopback)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
