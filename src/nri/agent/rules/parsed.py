"""Rules out of the objects that hold them: NodeSLO, NodeResourceTopology and Node. A table of kinds; pure.

Rules: a document is taken whole or refused whole, with a ValueError that begins with the key that is wrong. So the
rules that are in force together have been written together. Next: `nri.policies.koordinator.rules`, which parse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from nri.policies.koordinator.hooks.batch_resource import BatchRule
from nri.policies.koordinator.profile import Node
from nri.policies.koordinator.rules import host_applications, network, node, node_slo, node_topology
from nri.policies.koordinator.shapes import Record, Table, fit

__all__ = ["KINDS", "NODE", "SLO", "TOPOLOGY", "Kind", "parse"]

SLO: Final = "NodeSLO"
TOPOLOGY: Final = "NodeResourceTopology"
NODE: Final = "Node"

Document = Mapping[str, Any]
_META: Final = Record({"metadata": Record({"name": str, "annotations": Table(str)})})


class SloRule(NamedTuple):
    """The rules that hooks take from a NodeSLO, and its spec, which the loops and the network hooks read themselves."""

    identity: node_slo.GroupIdentityRule
    core: node_slo.CoreSchedRule
    has_quota: bool
    spec: Mapping[str, Any]


class Kind(NamedTuple):
    """One kind of object that rules come from.

    Attributes:
        parse: what it means; ValueError if it cannot be read.
        absent: what holds after it was deleted.
        same: whether two rules are so near to each other that nothing needs to be written again.
        into: the rules of the node with this one in place.
    """

    parse: Callable[[Document], Any]
    absent: Any
    same: Callable[[Any, Any], bool] | None
    into: Callable[[Node, Any], Node]


def _checked(document: Document) -> Document:
    """The document, if its metadata are what metadata are; what reads annotations counts on that."""
    if not isinstance(document, dict):
        raise ValueError("the document is not an object")  # noqa: TRY004  (a bad source, not a bad call)
    fit(document, _META, "")
    return document


def _slo(document: Document) -> SloRule:
    given = _checked(document).get("spec")
    spec = {} if given is None else given
    rule = SloRule(node_slo.group_identity(spec), node_slo.core_sched(spec), node_slo.has_cfs_quota(spec), spec)
    applications = spec.get("hostApplications")
    if applications is not None and not isinstance(applications, list):
        raise ValueError("hostApplications: it is not a list")
    host_applications.by_name(applications)
    if network.terway_chosen(spec):
        network.terway(spec)
    else:
        network.tc(spec, network.TcRule())
    return rule


def _slo_into(rules: Node, rule: SloRule | None) -> Node:
    if rule is None:
        return rules
    batch = BatchRule(rule.has_quota, rules.batch.ratio)
    return replace(rules, identity=rule.identity, core=rule.core, batch=batch)


def _ratio_into(rules: Node, ratio: float | None) -> Node:
    if ratio is None:
        return rules
    return replace(rules, ratio=ratio, batch=BatchRule(rules.batch.has_quota, ratio))


#: Of a NodeSLO that is gone the defaults hold: all is switched off, and what it had switched on is taken back.
KINDS: Final = {
    SLO: Kind(_slo, _slo({}), None, _slo_into),
    TOPOLOGY: Kind(
        lambda document: node_topology.parse(_checked(document)),
        None,
        None,
        lambda rules, cpus: rules if cpus is None else replace(rules, cpus=cpus),
    ),
    NODE: Kind(lambda document: node.ratio(_checked(document)), node.NO_RATIO, node.same_ratio, _ratio_into),
}


def parse(kind: str, document: Document) -> Any:
    """Return the rule of a document. ValueError if it cannot be read, whatever is wrong with it."""
    try:
        return KINDS[kind].parse(document)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"it cannot be read: {type(error).__name__}: {error}") from None
