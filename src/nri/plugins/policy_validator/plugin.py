"""`policy-validator`: enforce the operator's `policy.toml` on runtimes that do not read the file, such as containerd.

A validator gets the merged changes of a creation and the owner of each field, so it enforces `allow` and `required`
there. Everything else in the file concerns how a runtime calls its plugins, and a validator cannot change that.
"""

from __future__ import annotations

from dataclasses import replace

import nri
from nri.api.events import BY_METHOD
from nri.api.fields import NAMES
from nri.api.owners import field_name
from nri.plugin_policy.allow import Change, violation
from nri.plugin_policy.identity import refusal
from nri.plugin_policy.policy import DEFAULT_PATH, Policies
from nri.stub.program.options import Flag
from nri.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import ClassVar

    from nri.api.messages import OwningPlugins

#: What the start line of the plugin reports.
_NOT_ENFORCED = (
    "any change outside the creation of a container (UpdateContainer, StopContainer, Synchronize, a plugin's own "
    "updates and evictions), the namespaces of other containers that a creation updates, required at other events, "
    "uid, launched, filters, shadow, timeout, keep_connected, fail_request, breaker, restart"
)
_CREATE = BY_METHOD["create_container"]
#: The longest name of a plugin or container in a refusal.
_MAX_NAME = 256


class PolicyValidator(nri.Plugin):
    """Refuse containers that a plugin changed against the policy of the operator, or that lack a required plugin."""

    name = "policy-validator"
    sets = ()
    flags: ClassVar[Mapping[str, Flag]] = {
        "policy": Flag("policy", "FILE", f"the operator's policy file (default {DEFAULT_PATH})")
    }

    class Config:
        """Keys of the configuration."""

        policy: str = DEFAULT_PATH

    config: Config

    def __init__(self) -> None:
        self._policies = Policies(None)

    def configure(self) -> None:
        path = self.config.policy
        self._policies = policies = Policies(path)
        if path == DEFAULT_PATH and not policies.generation:  # about any other path, `Policies` warns
            self.log.warning("policy file %s not found: no policy is in force until it exists", path)
        self.log.info(
            "%s: enforces allow, required and strict when a container is created; not %s", path, _NOT_ENFORCED
        )

    def validate_container_adjustment(self, request: nri.ValidationRequest) -> None:
        self._policies.refresh()
        reason = self._missing_plugin(request) or self._violation(request)
        if reason:
            names = (request.pod.namespace, request.pod.name, request.container.name)
            raise nri.Reject(f"container {'/'.join(plain(name, _MAX_NAME) for name in names)}: {reason}")

    def _missing_plugin(self, request: nri.ValidationRequest) -> str | None:
        labels = {f"{plugin.index}-{plugin.name}" for plugin in request.plugins}
        for label, policy in self._policies.required:
            if label not in labels and policy.requires(_CREATE.number, request.pod.namespace):
                return f"plugin {label}: required for {_CREATE.rpc}, but not connected"
        return None

    def _violation(self, request: nri.ValidationRequest) -> str | None:
        namespace = request.pod.namespace
        for label, changes in _changes_by_plugin(request.owners, request.container.id).items():
            policy = self._policies.for_plugin(*_index_and_name(label))
            if policy.strict:
                return refusal(policy, plain(label, _MAX_NAME), launched=False, uid=None)
            if policy.allow is None:
                continue
            own_changes = [change for change in changes if change.target is None]
            other_changes = [change for change in changes if change.target is not None]
            anywhere = replace(policy.allow, namespaces=None)  # the namespaces of other containers are unknown here
            cause = violation(policy.allow, namespace, _CREATE.number, own_changes)
            cause = cause or violation(anywhere, namespace, _CREATE.number, other_changes)
            if cause is not None:
                return f"plugin {plain(label, _MAX_NAME)}: its policy does not allow it to {cause}"
        return None


def _index_and_name(label: str) -> tuple[str, str]:
    index, _, name = label.partition("-")
    return index, name


def _changes_by_plugin(owners: OwningPlugins, created: str) -> dict[str, list[Change]]:
    """The changes of a creation by plugin (``NN-name``), with one change for all entries of a field.

    Args:
        owners: the owners of fields in the created container, and in the containers that the creation updates.
        created: the id of the created container.
    """
    changes: dict[str, list[Change]] = {}
    for container_id, number, label in sorted(set(_owned_fields(owners))):
        field = field_name(number)
        target = None if container_id == created else container_id
        # No name allows a field that this version does not know.
        changes.setdefault(label, []).append(Change(target, f"set {field}", NAMES.get(field, frozenset())))
    return changes


def _owned_fields(owners: OwningPlugins) -> Iterator[tuple[str, int, str]]:
    """Yield container id, number of the field and plugin. Hooks may have several plugins."""
    for container_id, fields in owners.owners.items():
        entries = list(fields.simple.items())
        entries += [(number, label) for number, by_key in fields.compound.items() for label in by_key.owners.values()]
        for number, labels in entries:
            for label in labels.split(","):
                yield container_id, number, label.removeprefix("-")  # the mark of a removed entry


if __name__ == "__main__":
    PolicyValidator.main()
