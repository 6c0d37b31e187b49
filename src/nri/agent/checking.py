"""Check the agent's settings, rules and pod manifests, and report all mistakes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nri.agent.offline import explained, missing_rules, no_pods, pods_of, store_of
from nri.agent.ownership import KnobConflict, check_apart
from nri.agent.ownership import check as check_owners
from nri.agent.profile import profile_of
from nri.config.complaint import single_errors
from nri.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.agent.profile import Profile
    from nri.agent.rules.store import RuleStore
    from nri.agent.settings import AgentSettings
    from nri.config.settings import LoadedSettings


class Finding(NamedTuple):
    """A mistake: `where` is a file and line, `what` a key or a pod, `next` the suggested fix ("" if unknown)."""

    where: str
    what: str
    problem: str
    next: str = ""


class CheckOutcome(NamedTuple):
    """The outcome of a check.

    Attributes:
        findings: the mistakes.
        looked_at: a description of the checked objects.
        notes: further remarks for the author.
        wrong_settings: whether a finding is about the settings, not only about rules or pods.
    """

    findings: list[Finding]
    looked_at: str
    notes: list[str]
    wrong_settings: bool = False


def check(
    loaded: Sequence[LoadedSettings[AgentSettings]] | ConfigError, default: AgentSettings, rules: bool, pods: str
) -> CheckOutcome:
    """Check settings, rules and pods.

    Args:
        loaded: the settings of each profile, or the error if they cannot be read.
        default: the settings to use for rules and pods if `loaded` is an error.
        rules: whether to check rules even if the settings do not read them from files.
        pods: a file or folder of pods; "" if no pods are to be checked.
    """
    if isinstance(loaded, ConfigError):
        outcome = _check_files(default, rules, pods)
        return outcome._replace(findings=[*_settings_findings(loaded), *outcome.findings], wrong_settings=True)
    outcomes = [_check_profile(profile_settings, rules, pods) for profile_settings in loaded]
    prefixes = [f"{profile_settings.settings.profile}: " * (len(loaded) > 1) for profile_settings in loaded]
    conflicts = _conflicts([profile_settings.settings for profile_settings in loaded])
    findings = [*conflicts, *(finding for outcome in outcomes for finding in outcome.findings)]
    return CheckOutcome(
        list(dict.fromkeys(findings)),
        "; ".join(f"{prefix}{outcome.looked_at}" for prefix, outcome in zip(prefixes, outcomes, strict=True)),
        list(dict.fromkeys(note for outcome in outcomes for note in outcome.notes)),
        bool(conflicts) or any(outcome.wrong_settings for outcome in outcomes),
    )


def _conflicts(all_settings: Sequence[AgentSettings]) -> list[Finding]:
    """Return a finding on the first two hooks or strategies that set the same knob, of one profile or of two."""
    tables = [profile_of(settings.profile).owners_on(settings.gates) for settings in all_settings]
    try:
        for table in tables:
            check_owners(table)
        check_apart(tables)
    except KnobConflict as error:
        return [Finding("settings", "gates", str(error))]
    return []


def _check_profile(loaded: LoadedSettings[AgentSettings], rules: bool, pods: str) -> CheckOutcome:
    """Check the rules and pods that the settings of one profile name."""
    outcome = _check_files(loaded.settings, rules or loaded.settings.rules.source == "files", pods)
    missing = missing_rules(loaded)
    wrong = [_finding(missing)] if missing else []
    notes = [*loaded.notes, *_idle_notes(loaded.settings), *outcome.notes]
    return outcome._replace(findings=[*wrong, *outcome.findings], notes=notes)


def _idle_notes(settings: AgentSettings) -> list[str]:
    """Return a note if the settings enable no hook and no strategy."""
    profile = profile_of(settings.profile)
    if profile.hooks_on(settings.gates) or profile.strategies_on(settings.gates):
        return []
    gates = ", ".join(profile.gates)
    return [f"{profile.on}: no hook or strategy is enabled, so the agent would do nothing; choose from {gates}"]


def _check_files(settings: AgentSettings, rules: bool, pods: str) -> CheckOutcome:
    """Check rules and pods with settings that could be read."""
    wrong: list[Finding] = []
    words, notes = ["settings"], list[str]()
    node, wrong_settings = None, False
    if rules:
        store = store_of(settings)
        wrong += [Finding(problem.source, problem.kind, problem.error) for problem in store.problems()]
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
        notes += _disabled_gate_notes(store, strategies.kind, profile, settings)
    if pods:
        try:
            listed = pods_of(pods)
        except ConfigError as error:
            wrong += [_finding(part) for part in single_errors(error)]
        else:
            words.append(f"{len(listed)} pod{'s' * (len(listed) != 1)}")
            wrong += [] if listed else [_finding(no_pods(pods))]
            for pod, place, unknown in listed:
                notes += unknown
                row = explained(pod, settings, node or store_of(settings).node, {})
                wrong += [_hook_error(place(error["reason"]), row, error) for error in row["errors"]]
                # The machine is not examined, so the notes are about the pod: misspelt keys, keys without effect.
                notes += [f"{place(note)}: {_name(row)}: {note}" for note in row["notes"]]
    return CheckOutcome(wrong, ", ".join(words), notes, wrong_settings)


def _disabled_gate_notes(store: RuleStore, kind: str, profile: Profile, settings: AgentSettings) -> list[str]:
    """Return notes on features that a document requests and the settings leave switched off."""
    on = profile.hooks_on(settings.gates) | profile.strategies_on(settings.gates)
    why = "without effect, because {0} is off (gates.{0} = true switches it on)".format
    return [
        f"{store.place(kind, key)}: {kind}: {key}: {why(gate)}"
        for gate, key in profile.requested_gates(store.document(kind)).items()
        if gate not in on
    ]


def _settings_findings(error: ConfigError) -> list[Finding]:
    """Return each mistake. A file that is a Kubernetes object instead of settings gets only one finding."""
    findings = [_finding(finding) for finding in single_errors(error)]
    objects = {finding.where.rpartition(":")[0] for finding in findings if finding.what == "kind"}
    reason = "this is a Kubernetes object, not settings of the agent"
    advice = "use --rules for a file of rules, --pods for a file of pods"
    return [
        finding._replace(problem=reason, next=advice) if finding.what == "kind" else finding
        for finding in findings
        if finding.what == "kind" or finding.where.rpartition(":")[0] not in objects
    ]


def _finding(error: ConfigError) -> Finding:
    return Finding(error.source, error.key, error.reason, error.suggestion)


def _hook_error(place: str, row: dict[str, Any], error: dict[str, Any]) -> Finding:
    return Finding(place, _name(row, error["container"]), f"{error['hook']}: {error['reason']}")


def _name(row: dict[str, Any], container: str = "") -> str:
    return "/".join(part for part in (row["namespace"], row["name"], container) if part)
