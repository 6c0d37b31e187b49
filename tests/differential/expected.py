"""What must come out, given the reference's outcome: the same, but for what default mode is documented to do otherwise.

One rule of `nri.adaptation.Rules` after the other, by name, so that a run can say how often each was needed. The
stories of default mode (`tame`) leave out what the other rules are about. Next: `plugins`.
"""

import re
from collections import Counter
from typing import Any

from nri.api import messages as m
from nri.text import escape
from tests.support.sides import Mode, Outcome, Request

_NAMED = re.compile(r"^plugin \d\d-\w+\b")


class Expected:
    """The outcome of one request.

    Args:
        known: the containers that there are, which updates may name.
        silent: the plugins that do not answer CreateContainer, or not in time.
        rules: counts what was put right.
    """

    def __init__(self, mode: Mode, names: frozenset[str], silent: frozenset[str], rules: Counter[str]) -> None:
        self._default = mode == "default"
        self._known, self._silent, self._rules = names, silent, rules

    def error(self, remote: str | None, local: str | None) -> str | None:
        """The reference's error as ours must be; default mode names the plugin, and may word the rest otherwise."""
        if not self._default or remote is None or local is None:
            return remote
        if remote != local and escape(remote) == local:
            self._rules["conflict_keys_escaped"] += 1
            return local
        if not _NAMED.match(local):
            return remote
        _, status, output = remote.partition(" desc = ")
        if not status or output not in local:
            return remote
        self._rules["errors_name_plugin"] += 1
        return local

    def reply(self, message: Any) -> Any:
        """The reference's reply as ours must be."""
        return self._put_right(message) if message is not None else None

    def shown(self, message: Any) -> Any:
        """What a plugin of the reference was shown, as ours must be."""
        return self._put_right(message) if isinstance(message, m.ValidateContainerAdjustmentRequest) else message

    def shown_to_more(self, event: str, *, failed: bool) -> bool:
        """Whether a plugin of ours may get an event that the reference's did not get: one before it has failed that."""
        if not (self._default and failed and event.startswith("Post")):
            return False
        self._rules["reports_at_once"] += 1
        return True

    def _put_right(self, message: Any) -> Any:
        if not self._default:
            return message
        right = type(message)()
        right.CopyFrom(message)
        self._only_known_targets(right)
        self._no_empty_rdt(right)
        if isinstance(right, m.ValidateContainerAdjustmentRequest):
            self._only_known_owners(right)
            self._only_answerers(right)
            self._no_empty_hooks(right)
        return right

    def _only_known_targets(self, message: Any) -> None:
        # The empty one is the request's own, which nobody has changed.
        remaining = [update for update in message.update if update.container_id in self._known or not update.ByteSize()]
        if len(remaining) < len(message.update):
            self._rules["absent_containers_left_out"] += 1
            del message.update[:]
            message.update.extend(remaining)

    def _only_known_owners(self, message: m.ValidateContainerAdjustmentRequest) -> None:
        for target in list(message.owners.owners):
            if target not in self._known and target != message.container.id:
                self._rules["absent_containers_left_out"] += 1
                del message.owners.owners[target]

    def _only_answerers(self, message: m.ValidateContainerAdjustmentRequest) -> None:
        answered = [plugin for plugin in message.plugins if plugin.name not in self._silent]
        if len(answered) < len(message.plugins):
            self._rules["validators_see_answerers"] += 1
            del message.plugins[:]
            message.plugins.extend(answered)

    def _no_empty_hooks(self, message: m.ValidateContainerAdjustmentRequest) -> None:
        if message.adjust.HasField("hooks") and not message.adjust.hooks.ByteSize():
            self._rules["hooks_only_when_set"] += 1
            message.adjust.ClearField("hooks")

    def _no_empty_rdt(self, message: Any) -> None:
        adjust = getattr(message, "adjust", None)
        if adjust is not None and adjust.linux.HasField("rdt") and not adjust.linux.rdt.ByteSize():
            self._rules["rdt_only_when_asked"] += 1
            adjust.linux.ClearField("rdt")


def follow(names: set[str], request: Request, outcome: Outcome) -> None:
    """Keep track of which containers there are."""
    name = "" if request.container is None else request.container.id
    if request.event == "CreateContainer" and outcome.error is None:
        names.add(name)
    elif request.event == "RemoveContainer":
        names.discard(name)
