"""The interface between the proxy and hook servers, which are called before and after a CRI call is passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from nri.proxy.state import ContainerRecord, PodRecord


#: The CRI calls for which hook servers are called.
HOOKED = (
    "RunPodSandbox",
    "StopPodSandbox",
    "CreateContainer",
    "StartContainer",
    "UpdateContainerResources",
    "StopContainer",
)


class Subject(NamedTuple):
    """The pod and the container of a call, as far as the proxy knows them.

    Attributes:
        pod: the pod's record, with id, `config` (the PodSandboxConfig of its creation) and `runtime_handler`; None
            before it exists (RunPodSandbox), and if the runtime does not know it.
        container: the container's record, with `runtime_id`, `config` (the ContainerConfig as the runtime got it) and
            `resources` (those in force); None before it exists (CreateContainer) and for calls on pods.
    """

    pod: PodRecord | None = None
    container: ContainerRecord | None = None


class HookServers(Protocol):
    """All hook servers of a node behind one interface. Thread-safe: any number of threads may call it."""

    def start(self) -> None:
        """Look for hook servers. Returns at once, whether or not one exists."""

    def stop(self) -> None:
        """Close connections. Calling it again has no effect."""

    def before(self, method: str, request: Message, subject: Subject, deadline: float | None) -> None:
        """Call hook servers before a call of `HOOKED` is passed on; `request` may be changed in place.

        `deadline` is absolute, in monotonic seconds. Raises NriError if the kubelet's call must fail. The failure
        policy of a failing server decides that, so most errors are not raised.
        """

    def after(self, method: str, request: Message, response: Message, subject: Subject, deadline: float | None) -> None:
        """Notify hook servers of a call that the runtime has answered. Never raises, because nothing can be undone."""
