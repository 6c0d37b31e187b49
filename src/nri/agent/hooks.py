"""Hooks: pure functions that compute changes from a context, and `decide`, which runs all hooks of a stage.

Hooks run in the order of their table; if two hooks set the same value, the later hook takes precedence. A failing hook
stops the other hooks only under the failure policy "Fail".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from nri.agent.model import NO_CHANGES, Changes, Decision, HookError
from nri.agent.ownership import OwnedKnob

RUN_POD, CREATE, UPDATE, REMOVE_POD = (
    "PreRunPodSandbox",
    "PreCreateContainer",
    "PreUpdateContainerResources",
    "PreRemoveRunPodSandbox",
)
#: Stages for objects that no CRI call is about. They run by a timer or after a rule changed.
FOLDER, PROGRAM = "KubeQoS", "HostApplication"
RECONCILE_POD, RECONCILE_SANDBOX, RECONCILE_CONTAINER = "ReconcilePod", "ReconcileSandbox", "ReconcileContainer"
#: The stage for a running container while another container (`Container.new`) is being created. If a transport is
#: called
#: before the creation, it sends the changes with its reply; they hold until a later decision on the running container.
MAKE_ROOM: Final = "MakeRoom"
#: Stages for running objects; each runs the hooks of another stage and has the same switch.
LATER: Final = {RECONCILE_POD: RUN_POD, RECONCILE_SANDBOX: UPDATE, RECONCILE_CONTAINER: UPDATE}
#: The CRI call of each stage; the last five stages do not belong to a CRI call.
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
    """The rules that select the hooks and the effect of their errors."""

    @property
    def gates(self) -> frozenset[str] | None:
        """The enabled hooks; None means that the defaults apply."""
        ...

    @property
    def fail(self) -> bool:
        """Whether the first failing hook stops later hooks and fails the request."""
        ...

    @property
    def stages_off(self) -> frozenset[str]:
        """The stages at which no hook decides."""
        ...

    @property
    def keeps_partial(self) -> bool:
        """Whether the changes of a hook before its failure are applied."""
        ...


#: A function that decides, given a context and the rules of the node.
Decide = Callable[[Any, Any], Decision]


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook: its stages and what it reads and sets.

    Attributes:
        name: the name of the hook, and of its gate.
        default: whether the hook is on by default.
        sources: the kinds of documents that its rule comes from, and "pods" if the hook needs running pods.
        keys: the labels and annotations that the hook reads.
        stages: the function that decides at each stage.
        owns: the knobs that the hook sets.
        document_keys: the kinds and keys of documents that the hook uses; `{}` stands for NodeSLO's key of the pod's
            class.
    """

    name: str
    default: bool
    sources: tuple[str, ...]
    keys: tuple[str, ...]
    stages: Mapping[str, Decide]
    owns: tuple[OwnedKnob, ...] = ()
    document_keys: tuple[tuple[str, str], ...] = ()

    def on(self, rules: Switches) -> bool:
        """Return whether the rules enable this hook."""
        return self.default if rules.gates is None else self.name in rules.gates


@dataclass(frozen=True, slots=True)
class ExplainedDecision:
    """The changes of one hook and their reason, for `explain`."""

    hook: str
    changes: Changes
    reason: str


@dataclass(slots=True)
class Outcome:
    """The combined decision of all hooks of a stage. `failed` is the error that fails the request, if there is one.

    `hooks` are the enabled hooks of the stage, including hooks without changes.
    """

    changes: Changes = NO_CHANGES
    hooks: list[str] = field(default_factory=list)
    because: list[ExplainedDecision] = field(default_factory=list)
    errors: list[HookError] = field(default_factory=list)
    failed: HookError | None = None


def decide(hooks: Sequence[Hook], stage: str, context: Any, rules: Switches) -> Outcome:
    """Run the hooks of a stage for a context. Raises KeyError if the stage is unknown."""
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
            decision = Decision(partial, f"incomplete, the hook failed: {error.reason}")
        if decision.changes:
            outcome.changes |= decision.changes
            outcome.because.append(ExplainedDecision(hook.name, decision.changes, decision.reason))
    return outcome
