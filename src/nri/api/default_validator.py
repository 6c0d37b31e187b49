"""The default validator: restrictions that the operator sets for all plugins together, and required plugins.

The checks, their order and their messages equal those of NRI's Go validator, byte for byte, because users search for
them and tests of other projects compare them. Where the Go code iterates over a map in random order, this code sorts.
Configurations may use the keys of the common YAML form, of containerd's TOML, or of CRI-O's table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from nri.api.annotations import BOOLEANS, REQUIRED_PLUGINS, effective_annotation
from nri.api.messages import Field, FieldOwners, SecurityProfile, ValidateContainerAdjustmentRequest
from nri.api.naming import is_full_name
from nri.config import Source, parse_text
from nri.config.complaint import MAX_PROBLEMS, Problem, combined_error, shorten, suggest
from nri.config.key_path import path_text
from nri.config.typed import check as check_values
from nri.errors import ConfigError
from nri.rules import Rules
from nri.text import cut, quote

#: The index and name under which the validator takes part as a built-in plugin.
INDEX, NAME = "00", "default-validator"

#: The annotation of required plugins may have this many characters: hundreds of names.
LONGEST_ANNOTATION = 16_384

UNKNOWN_REASON = "unknown rejection reason"


def failure(plugin: str, cause: object) -> str:
    """The text for a validator that could not be asked."""
    return f"validator plugin {plugin} failed: {cause}"


@dataclass(frozen=True, slots=True)
class ValidatorConfig:
    """The configuration of the validator: what to refuse. Everything is off by default.

    Attributes:
        enable: whether the validator takes part.
        reject_oci_hook_adjustment: refuse hooks of any plugin.
        reject_runtime_default_seccomp_adjustment: refuse another seccomp policy if the pod requests the runtime's
            default.
        reject_unconfined_seccomp_adjustment: refuse a seccomp policy if the pod requests no policy.
        reject_custom_seccomp_adjustment: refuse another seccomp policy if the pod requests a policy of the node.
        reject_namespace_adjustment: refuse changes of namespaces.
        reject_sysctl_adjustment: refuse kernel parameters.
        required_plugins: ``name`` or ``NN-name`` of the plugins without which no container is created.
        tolerate_missing_plugins_annotation: the annotation that exempts a container from `required_plugins`; "" for
            none.
    """

    enable: bool = False
    reject_oci_hook_adjustment: bool = False
    reject_runtime_default_seccomp_adjustment: bool = False
    reject_unconfined_seccomp_adjustment: bool = False
    reject_custom_seccomp_adjustment: bool = False
    reject_namespace_adjustment: bool = False
    reject_sysctl_adjustment: bool = False
    required_plugins: tuple[str, ...] = ()
    tolerate_missing_plugins_annotation: str = ""

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any], source: str = "default validator") -> ValidatorConfig:
        """Read the configuration under the names of any of the three dialects.

        Raises ConfigError, which names `source`, for all unknown keys and wrong types at once.
        """
        spelled = {KEYS[key]: key for key in tree if key in KEYS}
        problems: list[Problem] = []
        values = check_values(cls, {name: tree[key] for name, key in spelled.items()}, (), problems).values
        errors = [
            ConfigError(
                source,
                path_text((spelled[str(problem.path[0])], *problem.path[1:])),
                problem.reason,
                problem.suggestion,
            )
            for problem in problems
        ]
        unknown = [key for key in tree if key not in KEYS]
        dialect = _dialect(tree) if unknown else []
        errors += [ConfigError(source, key, "unknown key", suggest(key, dialect)) for key in unknown[:MAX_PROBLEMS]]
        if errors:
            more = [ConfigError(source, "", "and more problems like these")] if len(errors) > MAX_PROBLEMS else []
            raise combined_error([*errors[:MAX_PROBLEMS], *more])
        return cls(**values)


_NAMES = [field.name for field in fields(ValidatorConfig)]


def _yaml_name(name: str) -> str:
    """The key in the common form: camel case, with OCI in capitals."""
    first, *words = name.split("_")
    return first + "".join("OCI" if word == "oci" else word.capitalize() for word in words)


def _crio_name(name: str) -> str:
    return "nri_enable_default_validator" if name == "enable" else f"nri_validator_{name}"


#: The attribute for every key of a configuration, in any of the dialects.
KEYS = {form(name): name for name in _NAMES for form in (str, _yaml_name, _crio_name)}


def _dialect(tree: Mapping[str, Any]) -> list[str]:
    """The keys of the dialect in which a configuration is written, for suggestions."""
    if any(key.startswith("nri_") for key in tree):
        return [_crio_name(name) for name in _NAMES]
    snake = any("_" in key for key in tree)
    return _NAMES if snake else [_yaml_name(name) for name in _NAMES]


def missing_plugins(required: Iterable[str], labels: Iterable[str], *, exact: bool = True) -> list[str]:
    """The required plugins, as ``name`` or ``NN-name``, that are not among the labels (``NN-name``).

    With `exact`, ``99-10-guard`` does not count as ``10-guard``, although its name without the index is the same.
    """
    present = set()
    for label in labels:
        present.add(label)
        name = label[3:]
        if not (exact and is_full_name(name)):
            present.add(name)
    return [name for name in required if name not in present]


class DefaultValidator:
    """The checks of a configuration, in the order of the Go code. The first check that fails decides."""

    __slots__ = ("_checks", "config")

    def __init__(self, config: ValidatorConfig, rules: Rules = Rules.DEFAULT) -> None:
        self.config = config
        required = functools.partial(_required, exact=rules.indexed_names_exact)
        self._checks = tuple(required if check is _required else check for check in _CHECKS)

    def validate(self, request: ValidateContainerAdjustmentRequest) -> str | None:
        """The reason why the merged adjustment is refused. Returns None if it is accepted."""
        owners = _owners(request)
        for check in self._checks:
            reason = check(self.config, request, owners)
            if reason is not None:
                return reason
        return None


def _owners(request: ValidateContainerAdjustmentRequest) -> FieldOwners:
    """The owners of the created container's fields. `in` is tested first, because a lookup would create the key."""
    owners = request.owners.owners
    return owners[request.container.id] if request.container.id in owners else FieldOwners()


def _compound(owners: FieldOwners, field: int) -> dict[str, str]:
    """The sorted owners by key, for a field that has an owner per key."""
    compound = owners.compound
    return dict(sorted(compound[field].owners.items())) if field in compound else {}


def _hooks(config: ValidatorConfig, request: ValidateContainerAdjustmentRequest, owners: FieldOwners) -> str | None:
    if not (config.reject_oci_hook_adjustment and request.HasField("adjust") and Field.OciHooks in owners.simple):
        return None
    plugins_text = owners.simple[Field.OciHooks]
    plural = "s" if "," in plugins_text else ""
    return f"validation error: plugin{plural} {quote(plugins_text)} attempted restricted OCI hook injection"


#: For each profile type, the attribute that forbids its change, and the words of the Go code, including blanks.
_SECCOMP = {
    SecurityProfile.UNCONFINED: ("reject_unconfined_seccomp_adjustment", " unconfined"),
    SecurityProfile.RUNTIME_DEFAULT: ("reject_runtime_default_seccomp_adjustment", "runtime default"),
    SecurityProfile.LOCALHOST: ("reject_custom_seccomp_adjustment", " custom"),
}


def _seccomp(config: ValidatorConfig, request: ValidateContainerAdjustmentRequest, owners: FieldOwners) -> str | None:
    if not request.HasField("adjust") or Field.SeccompPolicy not in owners.simple:
        return None
    linux = request.container.linux
    profile = linux.seccomp_profile.profile_type if linux.HasField("seccomp_profile") else SecurityProfile.UNCONFINED
    attribute, words = _SECCOMP.get(profile, ("enable", ""))
    if not words or not getattr(config, attribute):
        return None
    plugins_text = owners.simple[Field.SeccompPolicy]
    return f"validation error: plugin {plugins_text} attempted restricted {words} seccomp policy adjustment"


def _namespaces(
    config: ValidatorConfig, request: ValidateContainerAdjustmentRequest, owners: FieldOwners
) -> str | None:
    if not (config.reject_namespace_adjustment and request.HasField("adjust")):
        return None
    plugins_text = ", ".join(
        f"{quote(o)} (namespace {quote(type_)})" for type_, o in _compound(owners, Field.Namespace).items()
    )
    return (
        f"validation error: attempted restricted namespace adjustment by plugin(s) {plugins_text}"
        if plugins_text
        else None
    )


def _required(
    config: ValidatorConfig, request: ValidateContainerAdjustmentRequest, _: FieldOwners, *, exact: bool = True
) -> str | None:
    container = request.container.name
    key = config.tolerate_missing_plugins_annotation
    tolerate = effective_annotation(request.pod, key, container) if key else None
    if tolerate is not None:
        if tolerate not in BOOLEANS:
            shown = quote(cut(tolerate))
            return f"invalid {key} annotation {shown}: strconv.ParseBool: parsing {shown}: invalid syntax"
        if BOOLEANS[tolerate]:
            return None
    required = list(config.required_plugins)
    annotated = effective_annotation(request.pod, REQUIRED_PLUGINS, container)
    if annotated is not None:
        names, wrong = required_names(annotated)
        if wrong:
            return f"invalid {REQUIRED_PLUGINS} annotation {quote(cut(annotated))}: {wrong}"
        required += names
    labels = [f"{plugin.index}-{plugin.name}" for plugin in request.plugins]
    missing = missing_plugins(required, labels, exact=exact)
    if not missing:
        return None
    plural = "s" if len(missing) > 1 else ""
    return f"validation error: required plugin{plural} {quote(cut(','.join(missing)))} not present"


@functools.lru_cache(maxsize=64)
def required_names(text: str) -> tuple[tuple[str, ...], str]:
    """The plugin names of the annotation, a YAML or JSON list, and the reason why it is invalid, or "".

    The author of a pod writes it, and every creation waits for it. So its length is bounded, and it is read once.
    """
    if len(text) > LONGEST_ANNOTATION:
        return (), f"{len(text)} characters, at most {LONGEST_ANNOTATION}"
    try:
        tree = parse_text(Source("annotation", text))
    except ConfigError as error:
        return (), error.reason
    if tree is None:
        return (), ""
    if not isinstance(tree, list) or not all(isinstance(one, (str, int)) for one in tree):
        return (), f"expected a list of plugin names, not {shorten(tree)}"
    return tuple(str(one) for one in tree), ""


def _sysctl(config: ValidatorConfig, request: ValidateContainerAdjustmentRequest, owners: FieldOwners) -> str | None:
    if not (config.reject_sysctl_adjustment and request.adjust.HasField("linux")):
        return None
    owned = _compound(owners, Field.Sysctl)
    plugins_text = [owned[key] for key in sorted(request.adjust.linux.sysctl) if key in owned]
    return (
        f"validation error: attempted restricted sysctl adjustment by plugin(s) {', '.join(plugins_text)}"
        if plugins_text
        else None
    )


_CHECKS = (_hooks, _seccomp, _namespaces, _required, _sysctl)
