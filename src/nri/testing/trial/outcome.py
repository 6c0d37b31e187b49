"""The outcome of a trial: for each pod, and for each of its containers, what plugins changed, asked for and failed at.

Next: `nri.testing.trial.trial` fills it in, `nri.cli.verbs.try_` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.errors import ConflictError, NriError, PluginError, Reject, RpcError, ValidationRejected
from nri.ttrpc import Code

if TYPE_CHECKING:
    from nri.adaptation.audit import ShadowReport, Step

__all__ = ["MissingAnswer", "Outcome", "PodResult", "Result"]


class MissingAnswer(NamedTuple):
    """A plugin that gave no answer to an event: it was late, or its connection ended."""

    plugin: str
    event: str
    reason: str


@dataclass(slots=True)
class Result:
    """The outcome for one container.

    Attributes:
        steps: the changes that count, in their order.
        evictions: containers that plugins want gone, and why.
        misses: plugins that did not answer.
        shadows: what shadow plugins would have done; nothing of it counts.
        left_out: plugin and event of each update or eviction for a container that is not there.
        failed: why it would not be created; "" if it would.
    """

    id: str
    name: str
    steps: list[Step] = field(default_factory=list)
    evictions: list[tuple[str, str]] = field(default_factory=list)
    misses: list[MissingAnswer] = field(default_factory=list)
    shadows: list[ShadowReport] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    failed: str = ""

    @property
    def unchanged(self) -> bool:
        """Whether no plugin has changed the container or asked for anything, or would have."""
        return not (self.steps or self.evictions or self.misses or self.shadows or self.left_out or self.failed)

    def to_json(self) -> dict[str, Any]:
        """The outcome of the container as a table of JSON."""
        return {
            "id": self.id,
            "name": self.name,
            "steps": [step.to_json() for step in self.steps],
            "evictions": [{"container": target, "reason": reason} for target, reason in self.evictions],
            "unanswered": [miss._asdict() for miss in self.misses],
            "shadows": [report.to_json() for report in self.shadows],
            "left_out": [{"plugin": plugin, "event": event} for plugin, event in self.left_out],
            "failed": self.failed,
        }


@dataclass(slots=True)
class PodResult:
    """The outcome for one pod: for the pod itself, which has neither steps nor evictions, and for its containers."""

    pod: Result
    containers: list[Result] = field(default_factory=list)

    @property
    def all(self) -> list[Result]:
        """The pod and its containers."""
        return [self.pod, *self.containers]

    def to_json(self) -> dict[str, Any]:
        """The outcome of the pod as a table of JSON."""
        own = self.pod.to_json()
        kept = {key: own[key] for key in ("unanswered", "shadows", "left_out", "failed")}
        return {"pod": self.pod.name, **kept, "containers": [one.to_json() for one in self.containers]}


@dataclass(slots=True)
class Outcome:
    """The outcome for all pods.

    Attributes:
        refused: whether plugins are in conflict, or one refuses a pod or a container on purpose.
        failed: whether a plugin fails, or gives no answer.
    """

    plugins: list[str]
    pods: list[PodResult] = field(default_factory=list)
    refused: bool = False
    failed: bool = False

    @property
    def results(self) -> list[Result]:
        """The pods and containers, in the order in which they were tried."""
        return [result for pod in self.pods for result in pod.all]

    def to_json(self) -> dict[str, Any]:
        """The outcome of all pods as a table of JSON."""
        return {"plugins": self.plugins, "pods": [pod.to_json() for pod in self.pods]}

    def refuse(self, result: Result, error: NriError) -> None:
        """Take note of the error that a pod or container is not made for."""
        refused = isinstance(error, (ConflictError, ValidationRejected, Reject)) or _is_reject(error)
        self.refused = self.refused or refused
        self.failed = self.failed or not refused
        result.failed = str(error)

    def miss(self, result: Result, misses: list[MissingAnswer]) -> None:
        """Take note of plugins that did not answer: a failure, though the request goes on without them."""
        result.misses += misses
        self.failed = self.failed or bool(misses)


def _is_reject(error: BaseException | None) -> bool:
    """Whether a plugin refused on purpose, and did not merely fail."""
    if isinstance(error, RpcError):
        return error.code == Code.PERMISSION_DENIED
    return isinstance(error, PluginError) and _is_reject(error.__cause__)
