"""Configuration, annotations and policies of any length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.api import default_validator
from nri.api import messages as m
from nri.api.annotations import REQUIRED_PLUGINS
from nri.api.default_validator import ValidatorConfig
from nri.api.selectors import Filters, Pattern, Selector
from nri.config import Source, read
from nri.errors import ConfigError
from nri.plugin_policy import allow, file
from nri.pods.requests import Node, read_pods
from tests.support.growing import big
from tests.support.growing.big import Case, names
from tests.support.growing.creations import VALIDATOR


def allowed_updates(n: int) -> Callable[[], object]:
    """Updates held to what the operator allows."""
    policy = allow.Allow(
        namespaces=(Pattern.parse("web"),),
        fields=tuple(allow.AllowedField.parse(name) for name in ("CPUShares", "linux.resources.memory", "Env")),
    )
    updates = big.updates(n)
    return lambda: allow.breach(policy, "10-p", "web", update=updates, namespace_of=lambda _: "web")


def policy_tables(n: int) -> Callable[[], object]:
    """A policy of many tables, with as many namespaces in what holds for all."""
    namespaces = ", ".join(f'"ns-{one}-*"' for one in range(n))
    tables = "".join(f'["{one % 100:02d}-p{one}"]\nshadow = true\n' for one in range(n))
    source = Source("policy.toml", f"[defaults]\nallow.namespaces = [{namespaces}]\n{tables}", "toml")
    return lambda: file.parse(source)


def selectors(n: int) -> Callable[[], object]:
    """A pod with many annotations held against many selectors."""
    pod = m.PodSandbox(annotations=dict.fromkeys(names("k", n), "v"))
    filters = Filters(annotation=[Selector.parse(f"k{one}=v") for one in range(n)])
    return lambda: filters.admits(pod)


def required(n: int) -> Callable[[], object]:
    """An annotation that requires many plugins."""
    return _validate("[" + ", ".join(names("plugin-", n)) + "]")


def required_lines(n: int) -> Callable[[], object]:
    """The same, a line each."""
    return _validate("".join(f"- p{one}\n" for one in range(n)))


def _validate(annotation: str) -> Callable[[], object]:
    pod = m.PodSandbox(annotations={REQUIRED_PLUGINS: annotation})
    request = m.ValidateContainerAdjustmentRequest(pod=pod, container=big.container())

    def run() -> None:
        default_validator.required_names.cache_clear()
        longest, default_validator.LONGEST_ANNOTATION = default_validator.LONGEST_ANNOTATION, len(annotation)
        VALIDATOR.validate(request)
        default_validator.LONGEST_ANNOTATION = longest

    return run


class _Settings:
    cpus: str = "0-3"
    memory: int = 0
    classes: dict[str, str] = {}  # noqa: RUF012 - as users write it
    nodes: list[int] = []  # noqa: RUF012


def unknown_keys(text: Callable[[int], str], format: Any) -> Case:  # noqa: A002 - as in Source
    """A configuration of keys that do not exist."""

    def case(n: int) -> Callable[[], object]:
        source = Source("config", text(n), format)

        def run() -> None:
            try:
                read(_Settings, [source])
            except ConfigError as error:
                str(error)

        return run

    return case


def unknown_validator_keys(n: int) -> Callable[[], object]:
    """A table of the default validator with keys that do not exist."""
    tree = dict.fromkeys(names("rejectSomething", n), True)

    def run() -> None:
        try:
            ValidatorConfig.from_dict(tree)
        except ConfigError as error:
            str(error)

    return run


def manifest(text: Callable[[int], str]) -> Case:
    """A file of objects of which one is a pod that `nri pod` runs, and the rest is told, each with its line."""
    pod = '{"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}'

    def case(n: int) -> Callable[[], object]:
        source = Source("pods", text(n).replace("POD", pod), "auto")
        return lambda: read_pods(source, Node("node", "/pods"))

    return case


CASES: dict[str, Case] = {
    "manifest: objects of a list": manifest(
        lambda n: '{"kind": "List", "items": [\n' + '{"kind": "ConfigMap"},\n' * n + "POD]}"
    ),
    "manifest: documents": manifest(lambda n: "---\nkind: ConfigMap\n" * n + "---\nPOD"),
    "manifest: empty documents": manifest(lambda n: "---\n" * n + "POD"),
    "manifest: unknown keys": manifest(
        lambda n: (
            "POD\n---\nkind: Pod\nmetadata: {name: b}\nspec:\n  containers: [{name: a, image: b}]\n"
            + "".join(f"  key{one}: 1\n" for one in range(n))
        )
    ),
    "policy: allow": allowed_updates,
    "policy: tables": policy_tables,
    "policy: selectors": selectors,
    "validate: required-plugins": required,
    "validate: required-plugins, lines": required_lines,
    "config: unknown keys, YAML": unknown_keys(lambda n: "".join(f"key{one}: 1\n" for one in range(n)), "yaml"),
    "config: unknown keys, JSON": unknown_keys(
        lambda n: "{" + ",\n".join(f'"key{one}": 1' for one in range(n)) + "}", "json"
    ),
    "config: unknown keys, TOML": unknown_keys(lambda n: "".join(f"key{one} = 1\n" for one in range(n)), "toml"),
    "config: wrong values": unknown_keys(lambda n: "nodes:\n" + "".join(f"- x{one}\n" for one in range(n)), "yaml"),
    "config: a wrong table": unknown_keys(
        lambda n: "memory:\n" + "".join(f"  k{one}: x\n" for one in range(n)), "yaml"
    ),
    "config: validator's keys": unknown_validator_keys,
}
