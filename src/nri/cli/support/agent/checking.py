"""A check of the files that an agent is given: settings, rules, and pods as the hooks would meet them; all at once.

Rules: nothing is written, and no server is asked. Next: `nri.cli.support.agent.offline`, which reads and decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nri.agent.profile import profile_of
from nri.cli.errors import FAILED, USAGE
from nri.cli.support.agent.offline import book_of, explained, missing_rules, no_pods, pods_of
from nri.config.complaint import apart
from nri.errors import ConfigError

if TYPE_CHECKING:
    from nri.agent.profile import Profile
    from nri.agent.rules.book import RuleBook
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
    """The outcome: what is wrong, what was looked at, what the author should know besides, and the exit code."""

    findings: list[Finding]
    looked_at: str
    notes: list[str]
    code: int


def check(loaded: Loaded[AgentSettings] | ConfigError, default: AgentSettings, rules: bool, pods: str) -> Checked:
    """Check everything.

    Args:
        loaded: the settings, or what is wrong with them.
        default: the settings by which rules and pods are read if the settings cannot be.
        rules: whether the settings' files of rules are there to be read.
        pods: a file or folder of pods; empty for none.
    """
    wrong = _of_settings(loaded) if isinstance(loaded, ConfigError) else []
    code = USAGE if wrong else 0
    settings = default if isinstance(loaded, ConfigError) else loaded.settings
    words, notes = ["settings"], [] if isinstance(loaded, ConfigError) else list(loaded.notes)
    node = None
    if rules:
        book = book_of(settings)
        if not isinstance(loaded, ConfigError) and (lacking := missing_rules(loaded)):
            wrong.append(_of(lacking))
        found = [Finding(each.source, each.kind, each.error) for each in book.problems()]
        wrong += found
        profile = profile_of(settings.profile)
        strategies = profile.strategy_rules()
        kind = strategies.kind
        strategies.take(book.document(kind))
        wrong += [Finding(book.place(kind, error.partition(": ")[0]), kind, error) for error in strategies.errors]
        kinds = [kind for kind in book.kinds if book.document(kind)]
        words.append(f"rules ({', '.join(kinds) or f'none in {settings.rules.path}'})")
        node = book.node
        notes += book.remarks()
        notes += [f"{book.place(kind, one.key)}: {kind}: {one}" for kind, keys in book.unread().items() for one in keys]
        notes += _gates_off(book, strategies.kind, profile, settings)
    if pods:
        try:
            listed = pods_of(pods)
        except ConfigError as error:
            wrong += [_of(each) for each in apart(error)]
        else:
            words.append(f"{len(listed)} pod{'s' * (len(listed) != 1)}")
            wrong += [] if listed else [_of(no_pods(pods))]
            rows = [explained(pod, settings, node or book_of(settings).node, {}) for pod in listed]
            wrong += [_hook_error(pods, row, error) for row in rows for error in row["errors"]]
            # The machine is not looked at, so these are about the pod: what is misspelt, and what has no effect.
            notes += [f"{pods}: {_name(row)}: {note}" for row in rows for note in row["notes"]]
    return Checked(wrong, ", ".join(words), notes, code or (FAILED if wrong else 0))


def _gates_off(book: RuleBook, kind: str, profile: Profile, settings: AgentSettings) -> list[str]:
    """Things that a document asks for, and the settings do not switch on."""
    on = profile.hooks_on(settings.gates) | profile.strategies_on(settings.gates)
    why = "without effect, for {0} is off (gates.{0} = true switches it on)".format
    return [
        f"{book.place(kind, key)}: {kind}: {key}: {why(gate)}"
        for gate, key in profile.asked(book.document(kind)).items()
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


def _hook_error(path: str, row: dict[str, Any], error: dict[str, Any]) -> Finding:
    return Finding(path, _name(row, error["container"]), f"{error['hook']}: {error['reason']}")


def _name(row: dict[str, Any], container: str = "") -> str:
    return "/".join(part for part in (row["namespace"], row["name"], container) if part)
