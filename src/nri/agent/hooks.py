"""Hooks: pure functions from a context to changes, in a table; and the run of those of one stage.

Order: that of the table, and of two hooks that set one thing the later one's word counts. A hook that fails stops no
other unless the failure policy is "Fail". Next: `nri.agent.koordinator.node`, a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from nri.agent.model import NO_CHANGES, Changes, Decision, HookError
from nri.agent.ownership import Owns

__all__ = [
    "CREATE",
    "FOLDER",
    "LATER",
    "MAKE_ROOM",
    "MEND_CONTAINER",
    "MEND_POD",
    "MEND_SANDBOX",
    "PROGRAM",
    "REMOVE_POD",
    "RUN_POD",
    "STAGES",
    "UPDATE",
    "Decide",
    "ExplainedDecision",
    "Hook",
    "Outcome",
    "Switches",
    "decide",
]

RUN_POD, CREATE, UPDATE, REMOVE_POD = (
    "PreRunPodSandbox",
    "PreCreateContainer",
    "PreUpdateContainerResources",
    "PreRemoveRunPodSandbox",
)
#: The objects of decisions by a timer or a changed rule, beside pods and containers.
FOLDER, PROGRAM = "KubeQoS", "HostApplication"
MEND_POD, MEND_SANDBOX, MEND_CONTAINER = "ReconcilePod", "ReconcileSandbox", "ReconcileContainer"
#: A stage for a container that runs already, while another one is created: its context is a `Container`. Where a
#: transport is asked before a creation, the changes go with its answer; they hold until a later decision about that
#: container.
MAKE_ROOM: Final = "MakeRoom"
#: The stages for what runs already, with the one whose hooks decide at them, and which switches them off with it.
LATER: Final = {MEND_POD: RUN_POD, MEND_SANDBOX: UPDATE, MEND_CONTAINER: UPDATE}
#: The stages, with the call of the CRI that each belongs to; the last five belong to none.
STAGES: Final = {
    RUN_POD: "RunPodSandbox",
    CREATE: "CreateContainer",
    UPDATE: "UpdateContainer",
    REMOVE_POD: "RemovePodSandbox",
    MAKE_ROOM: "CreateContainer",
    FOLDER: "",
    PROGRAM: "",
    **dict.fromkeys(LATER, ""),
}


class Switches(Protocol):
    """The part of a node's rules that says which hooks decide, and what an error of one does."""

    @property
    def gates(self) -> frozenset[str] | None:
        """The hooks that are on; None for each as its row says."""
        ...

    @property
    def fail(self) -> bool:
        """Whether the first hook that fails stops the rest and fails the request."""
        ...

    @property
    def stages_off(self) -> frozenset[str]:
        """The stages at which no hook decides."""
        ...

    @property
    def keeps_partial(self) -> bool:
        """Whether what a hook had decided until it failed is applied."""
        ...


#: A context and the rules of the node to a decision.
Decide = Callable[[Any, Any], Decision]


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook.

    Attributes:
        name: by which it is switched on and off.
        default: whether it is on.
        sources: the kinds of documents that its rule comes from, and "pods" if it needs those that run.
        keys: the labels and annotations that it reads.
        stages: what decides at each.
        owns: the knobs that are its own.
        document_keys: the kinds and keys of documents by which it decides; `{}` is NodeSLO's key of the pod's class.
    """

    name: str
    default: bool
    sources: tuple[str, ...]
    keys: tuple[str, ...]
    stages: Mapping[str, Decide]
    owns: tuple[Owns, ...] = ()
    document_keys: tuple[tuple[str, str], ...] = ()

    def on(self, rules: Switches) -> bool:
        """Whether it is switched on."""
        return self.default if rules.gates is None else self.name in rules.gates


@dataclass(frozen=True, slots=True)
class ExplainedDecision:
    """The decision of one hook, and why: for `explain`."""

    hook: str
    changes: Changes
    reason: str


@dataclass(slots=True)
class Outcome:
    """The decision of all hooks of a stage together. `failed` is the error that stops the request, if one does.

    `asked` are the hooks that there are at the stage and that are on, whether they had anything to say or not.
    """

    changes: Changes = NO_CHANGES
    asked: list[str] = field(default_factory=list)
    because: list[ExplainedDecision] = field(default_factory=list)
    errors: list[HookError] = field(default_factory=list)
    failed: HookError | None = None


def decide(hooks: Sequence[Hook], stage: str, context: Any, rules: Switches) -> Outcome:
    """Run the hooks of a stage for a context; KeyError for a stage that is none."""
    STAGES[stage]
    outcome = Outcome()
    earlier = LATER.get(stage, stage)
    if not rules.stages_off.isdisjoint((stage, earlier)):
        return outcome
    for hook in hooks:
        function = hook.stages.get(stage) or hook.stages.get(earlier)
        if function is None or not hook.on(rules):
            continue
        outcome.asked.append(hook.name)
        try:
            decision = function(context, rules)
        except HookError as error:
            outcome.errors.append(error)
            if rules.fail:
                outcome.failed = error
                return outcome
            partial = error.partial if rules.keeps_partial else NO_CHANGES
            decision = Decision(partial, f"until it failed: {error.reason}")
        if decision.changes:
            outcome.changes |= decision.changes
            outcome.because.append(ExplainedDecision(hook.name, decision.changes, decision.reason))
    return outcome
