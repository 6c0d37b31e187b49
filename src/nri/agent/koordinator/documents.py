"""Rules out of the objects that hold them: NodeSLO, NodeResourceTopology and Node. A table of kinds; pure.

Rules: a document is taken whole or refused whole, with a ValueError that begins with the key that is wrong. So the
rules that are in force together have been written together. Next: `nri.agent.koordinator`, which parse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from nri.agent.koordinator import (
    batch_resource,
    core_sched,
    cpu_normalization,
    cpuset,
    group_identity,
    host_application,
    node,
)
from nri.agent.koordinator import network_rules as network
from nri.agent.koordinator.host_application import context_of
from nri.agent.koordinator.node import NO_RATIO, BatchRule, Node
from nri.agent.koordinator.unread import unread, unread_annotations
from nri.agent.profile import Documents, Kind
from nri.policies.contexts import HostApplicationContext
from nri.policies.shapes import Record, Table, fit

__all__ = ["KINDS", "NODE", "SLO", "TOPOLOGY", "programs"]

SLO: Final = "NodeSLO"
TOPOLOGY: Final = "NodeResourceTopology"
NODE: Final = "Node"

Document = Mapping[str, Any]
_META: Final = Record({"metadata": Record({"name": str, "annotations": Table(str)})})


class SloRule(NamedTuple):
    """The rules that hooks take from a NodeSLO, and its spec, which the loops and the network hooks read themselves."""

    identity: node.GroupIdentityRule
    core: node.CoreSchedRule
    has_quota: bool
    spec: Mapping[str, Any]


def _checked(document: Document) -> Document:
    """The document, if its metadata are what metadata are; what reads annotations counts on that."""
    if not isinstance(document, dict):
        raise ValueError("the document is not an object")  # noqa: TRY004  (a bad source, not a bad call)
    fit(document, _META, "")
    return document


def _slo(document: Document) -> SloRule:
    given = _checked(document).get("spec")
    spec = {} if given is None else given
    rule = SloRule(group_identity.rule_of(spec), core_sched.rule_of(spec), batch_resource.has_cfs_quota(spec), spec)
    applications = spec.get("hostApplications")
    if applications is not None and not isinstance(applications, list):
        raise ValueError("hostApplications: it is not a list")
    host_application.by_name(applications)
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
    SLO: Kind(_slo, _slo({}), None, _slo_into, unread),
    TOPOLOGY: Kind(
        lambda document: cpuset.rule_of(_checked(document)),
        None,
        None,
        lambda rules, cpus: rules if cpus is None else replace(rules, cpus=cpus),
        unread_annotations,
    ),
    NODE: Kind(
        lambda document: cpu_normalization.ratio_of(_checked(document)),
        NO_RATIO,
        cpu_normalization.same_ratio,
        _ratio_into,
        unread_annotations,
    ),
}


def programs(documents: Documents, driver: str) -> Iterator[HostApplicationContext]:
    """Yield the programs of the host that NodeSLO lists. Raises ValueError if the list cannot be read."""
    spec = (documents(SLO) or {}).get("spec") or {}
    try:
        listed = host_application.by_name(spec.get("hostApplications"))
    except TypeError as error:
        raise ValueError(str(error)) from None
    for application in listed.values():
        yield context_of(application, driver)
