"""A check of the files that an agent is given: settings, rules, and pods as the hooks would meet them; all at once.

Rules: nothing is written, and no server is asked. Next: `nri.agent.offline`, which reads and decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nri.agent.offline import explained, missing_rules, no_pods, pods_of, store_of
from nri.agent.ownership import KnobConflict, check_apart
from nri.agent.ownership import check as check_owners
from nri.agent.profile import profile_of
from nri.config.complaint import apart
from nri.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.agent.profile import Profile
    from nri.agent.rules.store import RuleStore
    from nri.agent.settings import AgentSettings
    from nri.config.settings import Loaded

__all__ = ["Checked", "Finding", "check"]


class Finding(NamedTuple):
    """Something wrong. `where` is a file and line, `what` a key or a pod, `next` what to do, if that is known."""

    where: str
    what: str
    problem: str
    next: str = ""


class Checked(NamedTuple):
    """The outcome of a check.

    Attributes:
        findings: what is wrong.
        looked_at: what was checked, in words.
        notes: what the author should know besides.
        wrong_settings: whether some finding is about the settings, and not only about rules or pods.
    """

    findings: list[Finding]
    looked_at: str
    notes: list[str]
    wrong_settings: bool = False


def check(
    loaded: Sequence[Loaded[AgentSettings]] | ConfigError, default: AgentSettings, rules: bool, pods: str
) -> Checked:
    """Check everything.

    Args:
        loaded: the settings of each profile that is to run, or what is wrong with them.
        default: the settings by which rules and pods are read if the settings cannot be.
        rules: whether rules are looked at; else only where the settings have them in files.
        pods: a file or folder of pods; empty for none.
    """
    if isinstance(loaded, ConfigError):
        found = _files(default, rules, pods)
        return found._replace(findings=[*_of_settings(loaded), *found.findings], wrong_settings=True)
    every = [_one(each, rules, pods) for each in loaded]
    apart_from = [f"{each.settings.profile}: " * (len(loaded) > 1) for each in loaded]
    conflicts = _conflicts([each.settings for each in loaded])
    findings = [*conflicts, *(one for found in every for one in found.findings)]
    return Checked(
        list(dict.fromkeys(findings)),
        "; ".join(f"{whose}{found.looked_at}" for whose, found in zip(apart_from, every, strict=True)),
        list(dict.fromkeys(note for found in every for note in found.notes)),
        bool(conflicts) or any(found.wrong_settings for found in every),
    )


def _conflicts(every: Sequence[AgentSettings]) -> list[Finding]:
    """The first two hooks or strategies that set one knob, of one profile or of two."""
    tables = [profile_of(each.profile).owners_on(each.gates) for each in every]
    try:
        for table in tables:
            check_owners(table)
        check_apart(tables)
    except KnobConflict as error:
        return [Finding("settings", "gates", str(error))]
    return []


def _one(loaded: Loaded[AgentSettings], rules: bool, pods: str) -> Checked:
    """Check what the settings of one profile name."""
    found = _files(loaded.settings, rules or loaded.settings.rules.source == "files", pods)
    lacking = missing_rules(loaded)
    wrong = [_of(lacking)] if lacking else []
    notes = [*loaded.notes, *_nothing_on(loaded.settings), *found.notes]
    return found._replace(findings=[*wrong, *found.findings], notes=notes)


def _nothing_on(settings: AgentSettings) -> list[str]:
    """A line if the settings switch nothing on: an agent without work is hardly what was meant."""
    profile = profile_of(settings.profile)
    if profile.hooks_on(settings.gates) or profile.strategies_on(settings.gates):
        return []
    return [f"{profile.on}: nothing is switched on, so that nothing would be done; it takes {', '.join(profile.gates)}"]


def _files(settings: AgentSettings, rules: bool, pods: str) -> Checked:
    """Check rules and pods by settings that can be read."""
    wrong: list[Finding] = []
    words, notes = ["settings"], list[str]()
    node, wrong_settings = None, False
    if rules:
        store = store_of(settings)
        wrong += [Finding(each.source, each.kind, each.error) for each in store.problems()]
        profile = profile_of(settings.profile)
        strategies = profile.strategy_rules()
        kind = strategies.kind
        strategies.take(store.document(kind))
        wrong += [Finding(store.place(kind, error.partition(": ")[0]), kind, error) for error in strategies.errors]
        kinds = [kind for kind in store.kinds if store.document(kind)]
        words.append(f"rules ({', '.join(kinds) or f'none in {settings.rules.path}'})")
        node = store.node
        notes += store.remarks()
        for kind, one in ((kind, one) for kind, keys in store.unread().items() for one in keys):
            notes.append(f"{store.place(kind, one.key)}: {kind}: {one}")
        notes += _gates_off(store, strategies.kind, profile, settings)
    if pods:
        try:
            listed = pods_of(pods)
        except ConfigError as error:
            wrong += [_of(each) for each in apart(error)]
        else:
            words.append(f"{len(listed)} pod{'s' * (len(listed) != 1)}")
            wrong += [] if listed else [_of(no_pods(pods))]
            for pod, place in listed:
                row = explained(pod, settings, node or store_of(settings).node, {})
                wrong += [_hook_error(place(error["reason"]), row, error) for error in row["errors"]]
                # The machine is not looked at, so these are about the pod: what is misspelt, and what has no effect.
                notes += [f"{place(note)}: {_name(row)}: {note}" for note in row["notes"]]
    return Checked(wrong, ", ".join(words), notes, wrong_settings)


def _gates_off(store: RuleStore, kind: str, profile: Profile, settings: AgentSettings) -> list[str]:
    """Things that a document asks for, and the settings do not switch on."""
    on = profile.hooks_on(settings.gates) | profile.strategies_on(settings.gates)
    why = "without effect, for {0} is off (gates.{0} = true switches it on)".format
    return [
        f"{store.place(kind, key)}: {kind}: {key}: {why(gate)}"
        for gate, key in profile.asked(store.document(kind)).items()
        if gate not in on
    ]


def _of_settings(error: ConfigError) -> list[Finding]:
    """Each mistake; of an object of Kubernetes, which is no settings, that alone."""
    found = [_of(each) for each in apart(error)]
    objects = {each.where.rpartition(":")[0] for each in found if each.what == "kind"}
    told = "it is an object of Kubernetes, and not the agent's settings"
    advice = "a file of rules is given by --rules, one of pods by --pods"
    return [
        each._replace(problem=told, next=advice) if each.what == "kind" else each
        for each in found
        if each.what == "kind" or each.where.rpartition(":")[0] not in objects
    ]


def _of(error: ConfigError) -> Finding:
    return Finding(error.source, error.key, error.reason, error.suggestion)


def _hook_error(place: str, row: dict[str, Any], error: dict[str, Any]) -> Finding:
    return Finding(place, _name(row, error["container"]), f"{error['hook']}: {error['reason']}")


def _name(row: dict[str, Any], container: str = "") -> str:
    return "/".join(part for part in (row["namespace"], row["name"], container) if part)
