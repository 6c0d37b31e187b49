"""The interface between the proxy and hook servers, which are called before and after a CRI call is passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from nri.proxy.state import ContainerRecord, PodRecord


#: The calls of the CRI at which hook servers are asked.
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
        pod: the pod's record: id, `config` (the PodSandboxConfig that made it) and `runtime_handler`; None before there
            is one (RunPodSandbox), and where the runtime does not know it.
        container: the container's record: `runtime_id`, `config` (the ContainerConfig as the runtime got it) and
            `resources` (those in force); None before there is one (CreateContainer) and for calls on pods.
    """

    pod: PodRecord | None = None
    container: ContainerRecord | None = None


class HookServers(Protocol):
    """All hook servers of a node, as one. Thread-safe: calls come from as many threads as requests."""

    def start(self) -> None:
        """Look for hook servers; returns at once, whether or not there is one."""

    def stop(self) -> None:
        """End connections. A second call does nothing."""

    def before(self, method: str, request: Message, subject: Subject, deadline: float | None) -> None:
        """Ask about a call before it is passed on, one of `HOOKED`; `request` may be changed in place.

        `deadline` is absolute, in monotonic seconds. Raises NriError for what the kubelet's call shall fail with;
        what a failing server means is up to its failure policy, so most errors are not raised.
        """

    def after(self, method: str, request: Message, response: Message, subject: Subject, deadline: float | None) -> None:
        """Tell of a call that the runtime has answered. Raises nothing: nothing is undone because of it."""
