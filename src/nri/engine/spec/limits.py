"""Check the values of a request that the engine uses as paths, names in the kernel, or lines of files."""

from __future__ import annotations

import ipaddress
import re

from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError

_PATH_BYTES, _NAME_BYTES = 4095, 255  # PATH_MAX includes a zero byte; NAME_MAX does not
_NAME_LENGTH = 253  # as in Kubernetes
_HOSTNAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PORTS = 1 << 16


def check_path(field: str, path: str) -> None:
    """Raise RequestError if a path, or a name in it, is longer than the kernel allows."""
    encoded = path.encode(errors="surrogateescape")
    if len(encoded) > _PATH_BYTES or any(len(name) > _NAME_BYTES for name in encoded.split(b"/")):
        raise RequestError(field, path, f"exceeds {_PATH_BYTES} bytes, or has a name of more than {_NAME_BYTES} bytes")
    if "\0" in path or "\n" in path:
        raise RequestError(field, path, "contains a zero byte or a line end")


def check_pod(config: pb.PodSandboxConfig) -> None:
    """Raise RequestError if the configuration of a pod is invalid."""
    for field in ("name", "namespace", "uid"):
        _check_name(f"metadata.{field}", getattr(config.metadata, field))
    if config.hostname and not _HOSTNAME.fullmatch(config.hostname):
        raise RequestError("hostname", config.hostname, "must be at most 64 letters, digits, '.', '_' and '-'")
    if config.log_directory and not config.log_directory.startswith("/"):
        raise RequestError("log_directory", config.log_directory, "must be an absolute path")
    check_path("log_directory", config.log_directory)
    for field in ("servers", "searches", "options"):
        for index, text in enumerate(getattr(config.dns_config, field)):
            if not text.isprintable() or " " in text or not text:
                raise RequestError(
                    f"dns_config.{field}[{index}]", text, "must be one word, because it is written to /etc/resolv.conf"
                )
    for index, row in enumerate(config.port_mappings):
        _check_port(f"port_mappings[{index}]", row)


def _check_name(field: str, text: str) -> None:
    if not text:
        raise RequestError(field, text, "is required")
    if len(text) > _NAME_LENGTH or not text.isprintable():
        raise RequestError(field, text, f"must be one line of at most {_NAME_LENGTH} characters")
    if ";" in text:
        raise RequestError(field, text, "must not contain ';', which separates arguments of network plugins")


def _check_port(field: str, row: pb.PortMapping) -> None:
    for name in ("host_port", "container_port"):
        if not 0 <= getattr(row, name) < _PORTS:
            raise RequestError(f"{field}.{name}", getattr(row, name), f"must be between 0 and {_PORTS - 1}")
    if row.protocol not in pb.Protocol.values():
        raise RequestError(f"{field}.protocol", row.protocol, "is unknown")
    try:
        ipaddress.ip_address(row.host_ip or "0.0.0.0")  # noqa: S104  nothing is bound
    except ValueError:
        raise RequestError(f"{field}.host_ip", row.host_ip, "is not an IP address") from None
