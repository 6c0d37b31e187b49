"""Hooks: pure functions from a context to changes, and the run of all hooks of a stage.

Hooks run in the order of their table; where two set the same thing, the later one wins. A failing hook stops the others
only under the failure policy "Fail".
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
#: Further objects of decisions, by a timer or after a rule changed.
FOLDER, PROGRAM = "KubeQoS", "HostApplication"
MEND_POD, MEND_SANDBOX, MEND_CONTAINER = "ReconcilePod", "ReconcileSandbox", "ReconcileContainer"
#: The stage for a running container while another one (`Container.new`) is created. Where a
#: transport is called before the creation, the changes go with its answer; they hold until a later decision on that
#: container.
MAKE_ROOM: Final = "MakeRoom"
#: Stages for running objects, with the stage whose hooks decide there and whose switch applies.
LATER: Final = {MEND_POD: RUN_POD, MEND_SANDBOX: UPDATE, MEND_CONTAINER: UPDATE}
#: The stages, with the CRI call of each; the last five have none.
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
    """The part of a node's rules that selects the hooks and the effect of their errors."""

    @property
    def gates(self) -> frozenset[str] | None:
        """The enabled hooks; None for the defaults."""
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
        """Whether the changes of a hook before its failure are applied."""
        ...


#: A context and the rules of the node to a decision.
Decide = Callable[[Any, Any], Decision]


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook: its stages and what it reads and sets.

    Attributes:
        name: of the gate that switches it on and off.
        default: whether it is on by default.
        sources: the kinds of documents behind its rule, and "pods" if it needs running pods.
        keys: the labels and annotations that it reads.
        stages: the decision at each stage.
        owns: the knobs that it sets.
        document_keys: the kinds and keys of documents that it decides by; `{}` is NodeSLO's key of the pod's class.
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

    `hooks` are the enabled hooks of the stage, whether they decided anything or not.
    """

    changes: Changes = NO_CHANGES
    hooks: list[str] = field(default_factory=list)
    because: list[ExplainedDecision] = field(default_factory=list)
    errors: list[HookError] = field(default_factory=list)
    failed: HookError | None = None


def decide(hooks: Sequence[Hook], stage: str, context: Any, rules: Switches) -> Outcome:
    """Run the hooks of a stage for a context. Raises KeyError for an unknown stage."""
    STAGES[stage]
    outcome = Outcome()
    earlier = LATER.get(stage, stage)
    if not rules.stages_off.isdisjoint((stage, earlier)):
        return outcome
    for hook in hooks:
        function = hook.stages.get(stage) or hook.stages.get(earlier)
        if function is None or not hook.on(rules):
            continue
        outcome.hooks.append(hook.name)
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
