"""The outcome of a trial: changes, requests and failures of plugins, for each pod and container."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.errors import ConflictError, NriError, PluginError, Reject, RpcError, ValidationRejected
from nri.ttrpc import Code

if TYPE_CHECKING:
    from nri.adaptation.audit import ShadowReport, Step


class MissingAnswer(NamedTuple):
    """A plugin that did not answer an event: it was late, or its connection ended."""

    plugin: str
    event: str
    reason: str


@dataclass(slots=True)
class Result:
    """The outcome for a container, or for a pod itself.

    Attributes:
        steps: the effective changes, in order.
        evictions: the containers that plugins evict, with the reasons.
        misses: the plugins that did not answer.
        shadows: the changes of shadow plugins, which have no effect.
        left_out: plugin and event of each update or eviction of an unknown container.
        failure: the reason why the container or pod would not be created, or "".
    """

    id: str
    name: str
    steps: list[Step] = field(default_factory=list)
    evictions: list[tuple[str, str]] = field(default_factory=list)
    misses: list[MissingAnswer] = field(default_factory=list)
    shadows: list[ShadowReport] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    failure: str = ""

    @property
    def unchanged(self) -> bool:
        """Whether there are no changes, requests or failures, not even of shadow plugins."""
        return not (self.steps or self.evictions or self.misses or self.shadows or self.left_out or self.failure)

    def to_json(self) -> dict[str, Any]:
        """The outcome for the container or pod as a JSON object."""
        return {
            "id": self.id,
            "name": self.name,
            "steps": [step.to_json() for step in self.steps],
            "evictions": [{"container": target, "reason": reason} for target, reason in self.evictions],
            "unanswered": [miss._asdict() for miss in self.misses],
            "shadows": [report.to_json() for report in self.shadows],
            "left_out": [{"plugin": plugin, "event": event} for plugin, event in self.left_out],
            "failed": self.failure,
        }


@dataclass(slots=True)
class PodResult:
    """The outcome for a pod: for the pod itself, which has neither steps nor evictions, and for its containers."""

    pod: Result
    containers: list[Result] = field(default_factory=list)

    @property
    def all(self) -> list[Result]:
        """The outcomes for the pod itself and for its containers."""
        return [self.pod, *self.containers]

    def to_json(self) -> dict[str, Any]:
        """The outcome of the pod as a JSON object."""
        pod_result = self.pod.to_json()
        pod_fields = {key: pod_result[key] for key in ("unanswered", "shadows", "left_out", "failed")}
        return {
            "pod": self.pod.name,
            **pod_fields,
            "containers": [container.to_json() for container in self.containers],
        }


@dataclass(slots=True)
class Outcome:
    """The outcome for all pods.

    Attributes:
        refused: whether plugins conflict, or a plugin refuses a pod or container on purpose.
        failed: whether a plugin fails, or does not answer.
    """

    plugins: list[str]
    pods: list[PodResult] = field(default_factory=list)
    refused: bool = False
    failed: bool = False

    @property
    def results(self) -> list[Result]:
        """The outcomes for all pods and containers, in the order in which they were tried."""
        return [result for pod in self.pods for result in pod.all]

    def to_json(self) -> dict[str, Any]:
        """The outcome of all pods as a JSON object."""
        return {"plugins": self.plugins, "pods": [pod.to_json() for pod in self.pods]}

    def record_error(self, result: Result, error: NriError) -> None:
        """Record the error that prevents the creation of a pod or container."""
        refused = isinstance(error, (ConflictError, ValidationRejected, Reject)) or _is_reject(error)
        self.refused = self.refused or refused
        self.failed = self.failed or not refused
        result.failure = str(error)

    def record_misses(self, result: Result, misses: list[MissingAnswer]) -> None:
        """Record plugins that did not answer. This is a failure, although the request continues without them."""
        result.misses += misses
        self.failed = self.failed or bool(misses)


def _is_reject(error: BaseException | None) -> bool:
    """Whether an error means that a plugin refused a pod or container on purpose."""
    if isinstance(error, RpcError):
        return error.code == Code.PERMISSION_DENIED
    return isinstance(error, PluginError) and _is_reject(error.__cause__)
