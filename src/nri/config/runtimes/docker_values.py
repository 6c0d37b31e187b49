"""The types and values of the keys of daemon.json, as dockerd of Docker Engine 29 checks them before it starts.

Checked by dockerd and not here: the parts of `builder`, host names of `hosts`, and whether files exist.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nri.config.runtimes.reading import Kind, Remark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nri.config.key_path import Path
    from nri.config.runtimes.config_file import ConfigFile

_KEYS = """
bool: tls tlsverify allow-direct-routing cri-containerd debug experimental icc init ip-forward ip-forward-no-drop
  ip-masq ip6tables iptables ipv6 live-restore no-new-privileges raw-logs rootless selinux-enabled userland-proxy
int: default-stop-timeout max-concurrent-downloads max-concurrent-uploads max-download-attempts mtu
  network-control-plane-mtu network-diagnostic-port shutdown-timeout cpu-rt-period cpu-rt-runtime
  swarm-raft-election-tick swarm-raft-heartbeat-tick
str: bip bip6 bridge bridge-accept-fwmark cgroup-parent containerd containerd-namespace containerd-plugin-namespace
  data-root default-cgroupns-mode default-init default-ipc-mode default-runtime exec-root firewall-backend fixed-cidr
  fixed-cidr-v6 group init-path log-driver log-format log-level metrics-addr min-api-version pidfile resolv-conf
  seccomp-profile storage-driver swarm-default-advertise-addr tlscacert tlscert tlskey userland-proxy-path userns-remap
  default-gateway default-gateway-v6 host-gateway-ip ip default-shm-size
list: authorization-plugins cdi-spec-dirs dns-opts dns-search exec-opts hosts insecure-registries labels
  node-generic-resources registry-mirrors storage-opts dns host-gateway-ips default-address-pools
dict: builder proxies default-ulimits features default-network-opts log-opts runtimes
"""
_TYPES: dict[str, type] = {"bool": bool, "int": int, "str": str, "list": list, "dict": dict}


def _key_types() -> dict[str, type]:
    types: dict[str, type] = {}
    kind: type = str
    for word in _KEYS.split():
        if word.endswith(":"):
            kind = _TYPES[word[:-1]]
        else:
            types[word] = kind
    return types


#: The type of each key.
KEY_TYPES = _key_types()
#: The types of the values in a table or list; other lists have strings.
_ITEM_TYPES: dict[str, type] = {
    "proxies": str, "log-opts": str, "features": bool, "default-network-opts": dict, "runtimes": dict,
    "default-ulimits": dict, "default-address-pools": dict,
}  # fmt: skip
#: The types of the keys of a table in a table.
_PART_TYPES: Mapping[str, Mapping[str, type]] = {
    "default-ulimits": {"name": str, "hard": int, "soft": int},
    "runtimes": {"path": str, "runtimetype": str, "runtimeargs": list, "options": dict},
}
_NOT_NEGATIVE = ("mtu", "max-concurrent-downloads", "max-concurrent-uploads", "max-download-attempts",
                 "default-stop-timeout", "network-diagnostic-port")  # fmt: skip
_CHOICES = {
    "log-level": ("panic", "fatal", "error", "warn", "info", "debug", "trace"),
    "log-format": ("text", "json"),
    "firewall-backend": ("iptables", "nftables"),
    "default-ipc-mode": ("private", "shareable"),
    "default-cgroupns-mode": ("private", "host"),
}
_ADDRESSES = ("default-gateway", "default-gateway-v6", "host-gateway-ip", "ip", "dns", "host-gateway-ips")
_SIZE = re.compile(r"\d+(\.\d*)? ?([kKmMgGtTpP][iI]?[bB]?|[bB])?|\.\d+ ?([kKmMgGtTpP][iI]?[bB]?|[bB])?")
#: Link-local, multicast and mapped IPv4 addresses.
_NOT_SUBNETS = [IPv6Network(text) for text in ("fe80::/10", "ff00::/8", "::ffff:0:0/96")]
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_MAX_DOMAIN = 254
_RESERVED_LABELS = ("com.docker.", "io.docker.", "org.dockerproject.")
_INT64 = 1 << 63


def check_values(file: ConfigFile) -> Iterator[Remark]:
    """Generate a remark for each value with which dockerd does not start."""
    for key, value in file.tree.items():
        if value is None and key != "default-shm-size":
            continue
        for path, kind in _wrong_types(key, value):
            yield Remark(Kind.WRONG_TYPE, file.where(key, *path), {"type": kind, "value": _value_at(value, path)})
        for path, reason in _wrong_values(key, value):
            if key != "userland-proxy-path" or file.at("userland-proxy") is not False:
                yield Remark(Kind.START, file.where(key, *path), {"reason": reason, "suggestion": ""})
    features = file.at("features")
    for key, is_conflict, reason in (
        ("host-gateway-ip", file.at("host-gateway-ips") is not None, "host-gateway-ips is the same option"),
        ("cri-containerd", isinstance(features, dict) and features.get("embedded-containerd") is True,
         "the feature embedded-containerd excludes it"),
    ):  # fmt: skip
        if is_conflict and file.at(key):
            yield Remark(Kind.START, file.where(key), {"reason": reason, "suggestion": "keep one of the two"})


def _value_at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _wrong_types(key: str, value: Any) -> Iterator[tuple[Path, type]]:
    """Generate the paths below a key at which a value has another type, and the right type."""
    kind = KEY_TYPES.get(key)
    if kind is None:
        return
    if type(value) is not kind or (isinstance(value, int) and not -_INT64 <= value < _INT64):
        yield (), kind
    elif isinstance(value, list):
        item_type = _ITEM_TYPES.get(key, str)
        yield from (((place,), item_type) for place, item in enumerate(value) if _is_wrong(item, item_type))
    elif isinstance(value, dict) and key in _ITEM_TYPES:
        for name, item in value.items():
            if _is_wrong(item, _ITEM_TYPES[key]):
                yield (name,), _ITEM_TYPES[key]
            elif isinstance(item, dict):
                yield from (((name, *path), kind) for path, kind in _wrong_parts(key, item))


def _is_wrong(value: object, kind: type) -> bool:
    return value is not None and type(value) is not kind


def _wrong_parts(key: str, table: Mapping[str, Any]) -> Iterator[tuple[Path, type]]:
    """Generate the parts of a table in a table that have another type."""
    for name, value in table.items():
        kind = str if key == "default-network-opts" else _PART_TYPES[key].get(name.lower())
        if kind is not None and _is_wrong(value, kind):
            yield (name,), kind


def _wrong_values(key: str, value: Any) -> Iterator[tuple[Path, str]]:
    """Generate the paths below a key at which dockerd refuses a value of the right type, and the reasons."""
    if key == "labels" and isinstance(value, list):
        yield from _conflicting_labels(value)
    if type(value) is not KEY_TYPES.get(key):
        return
    items = enumerate(value) if isinstance(value, list) else [(None, value)]
    for place, item in items:
        path: Path = () if place is None else (place,)
        if key == "default-address-pools":
            reason = _pool_problem(item) if isinstance(item, dict) else ""
        elif place is None:
            reason = _reason(key, item)
        else:
            reason = _reason(key, item or "") if isinstance(item, (str, type(None))) else ""
        if reason:
            yield path, reason


def _pool_problem(pool: Mapping[str, Any]) -> str:
    """Return why dockerd refuses a pool of addresses, or ""."""
    base, size = (next((v for k, v in pool.items() if k.lower() == name), None) for name in ("base", "size"))
    if size is not None and type(size) is not int:
        return f"the size must be a whole number, not {size!r:.80}"
    try:
        if base is not None and (not isinstance(base, str) or "/" not in base):
            raise ValueError
        if base is not None:
            ip_network(base, strict=False)
    except ValueError:
        return f"the base {base!r:.80} is not an address range"
    return ""


def _reason(key: str, value: Any) -> str:
    """Return why dockerd refuses a value of the right type, or ""."""
    if key in _CHOICES:
        choices = _CHOICES[key]
        is_choice = not value or (value.lower() if key == "log-level" else value) in choices
        return "" if is_choice else f'must be one of {", ".join(choices)}, not "{value:.80}"'
    if key in _NOT_NEGATIVE:
        if value < 0:
            return f"{value} is negative"
        return f"{value} is above 65535" if key == "network-diagnostic-port" and value > 65535 else ""
    check = _CHECKS.get(key)
    if check is None or value is None or check(value):
        return ""
    return f'"{value!s:.80}" is not {_EXPECTED[key]}'


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return text == ""
    return True


def _is_mirror(text: str) -> bool:
    try:
        url = urlsplit(text)
    except ValueError:
        return False
    is_plain = "://" in text and not re.search(r"[\x00-\x20?#\x7f]", text) and "@" not in url.netloc
    return url.scheme in ("http", "https") and is_plain


def _is_subnet(text: str) -> bool:
    if not text:
        return True
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return False
    return (
        isinstance(network, IPv6Network) and "/" in text and not any(network.overlaps(other) for other in _NOT_SUBNETS)
    )


def _is_domain(text: str) -> bool:
    text = text.strip()
    if len(text.removesuffix(".")) > _MAX_DOMAIN:
        return False
    return text == "." or (re.search("[a-zA-Z]", text) is not None and _DOMAIN.fullmatch(text) is not None)


def _is_host(text: str) -> bool:
    scheme, separator, address = text.strip().partition("://")
    if not separator:
        scheme, address = "tcp", scheme
    port = address.partition("/")[0].rpartition(":")[2] if ":" in address else "0"
    return scheme in ("unix", "fd", "npipe") or (scheme == "tcp" and (port == "" or port.isdecimal()))


def _is_exec_option(text: str) -> bool:
    key, _, value = text.partition("=")
    return key.strip().lower() == "native.cgroupdriver" and value.strip() != ""


def _is_mark(text: str) -> bool:
    try:
        return not text or all(0 <= int(part, 0) < 1 << 32 for part in text.split("/", 1))
    except ValueError:
        return False


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    **dict.fromkeys(_ADDRESSES, _is_address),
    "registry-mirrors": _is_mirror,
    "dns-search": _is_domain,
    "hosts": _is_host,
    "userland-proxy-path": lambda text: text.startswith("/") or not text,
    "node-generic-resources": lambda text: re.fullmatch("[^=]*=(?!-)[^=]+", text) is not None,
    "fixed-cidr-v6": _is_subnet,
    "exec-opts": _is_exec_option,
    "labels": lambda text: "=" in text and not text.lower().startswith(_RESERVED_LABELS),
    "bridge-accept-fwmark": _is_mark,
    "default-shm-size": lambda text: _SIZE.fullmatch(text) is not None,
}
_EXPECTED = {
    **dict.fromkeys(_ADDRESSES, "an address"),
    "registry-mirrors": "a URL such as https://mirror.example.com",
    "dns-search": "a domain",
    "hosts": "an address such as unix:///run/docker.sock or tcp://127.0.0.1:2375",
    "userland-proxy-path": "an absolute path",
    "node-generic-resources": "KIND=VALUE",
    "fixed-cidr-v6": "an IPv6 address range",
    "exec-opts": "native.cgroupdriver=DRIVER",
    "labels": "KEY=VALUE with a key that is not Docker's",
    "bridge-accept-fwmark": "MARK or MARK/MASK",
    "default-shm-size": "a size such as 64m",
}


def _conflicting_labels(labels: list[Any]) -> Iterator[tuple[Path, str]]:
    values: dict[str, str] = {}
    for place, label in enumerate(labels):
        if isinstance(label, str) and "=" in label:
            key, _, value = label.partition("=")
            if values.setdefault(key, value) != value:
                yield (place,), f'"{key:.80}" has two values'
