"""The content of a CDI file as annotated classes with the keys of the format. Next: `nri.oci.cdi.file` reads them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

__all__ = ["Device", "Document", "Edits"]

_Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Id = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]


class DeviceNode:
    """A device node of the container. What is not given is asked of the host."""

    path: str
    hostPath: str = ""  # noqa: N815  (the format's words, here and below)
    type: str = ""
    major: _Number = 0
    minor: _Number = 0
    fileMode: int | str | None = None  # noqa: N815
    permissions: str = ""
    uid: _Id | None = None
    gid: _Id | None = None


class NetDevice:
    """A network device of the host that moves into the container."""

    hostInterfaceName: str  # noqa: N815
    name: str


class Mount:
    """A mount of the container."""

    hostPath: str  # noqa: N815
    containerPath: str  # noqa: N815
    options: list[str] | None = None
    type: str = ""


class Hook:
    """A hook, with the name of the moment at which it runs."""

    hookName: str  # noqa: N815
    path: str
    args: list[str] | None = None
    env: list[str] | None = None
    timeout: int | None = None


class IntelRdt:
    """RDT settings."""

    closID: str = ""  # noqa: N815
    l3CacheSchema: str = ""  # noqa: N815
    memBwSchema: str = ""  # noqa: N815
    schemata: list[str] | None = None
    enableMonitoring: bool = False  # noqa: N815


class Edits:
    """The changes of a spec."""

    env: list[str] | None = None
    deviceNodes: list[DeviceNode] | None = None  # noqa: N815
    netDevices: list[NetDevice] | None = None  # noqa: N815
    hooks: list[Hook] | None = None
    mounts: list[Mount] | None = None
    intelRdt: IntelRdt | None = None  # noqa: N815
    additionalGids: list[_Id] | None = None  # noqa: N815

    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        return not (self.intelRdt or any(getattr(self, name) for name in Edits.__annotations__))


class Device:
    """A device by its own name."""

    name: str
    annotations: dict[str, str] | None = None
    containerEdits: Edits | None = None  # noqa: N815


class Document:
    """The whole file: devices of one vendor and class, and what is done once for all of them."""

    cdiVersion: str  # noqa: N815
    kind: str
    annotations: dict[str, str] | None = None
    devices: list[Device] | None = None
    containerEdits: Edits | None = None  # noqa: N815
