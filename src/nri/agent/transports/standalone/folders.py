"""Cgroups that belong to no pod: folders of the kube-QoS classes, and programs of the host.

Rules: each folder and program by itself, so that one which cannot be decided costs the others nothing. Next:
:mod:`nri.agent.transports.standalone.transport`.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import Final

from nri.agent.decisions import reason_of
from nri.agent.parts import Parts
from nri.agent.transports.standalone.pods import NAME
from nri.agent.transports.standalone.tally import Tally
from nri.policies import paths
from nri.policies.contexts import HostApplicationContext, KubeQosContext
from nri.policies.hooks import FOLDER, PROGRAM
from nri.policies.paths import KUBE_CLASSES
from nri.policies.writes import writes

__all__ = ["kube_classes", "programs"]

#: More programs of the host than that are a mistake of who lists them.
_MOST_PROGRAMS: Final = 1024
_log = logging.getLogger("nri.agent")


def kube_classes(parts: Parts, tally: Tally, *, force: bool) -> None:
    """Decide and write for the three folders."""
    for kube_class in KUBE_CLASSES:
        context = KubeQosContext(kube_class, paths.kube_class_path(kube_class, parts.driver))
        _decided(parts, FOLDER, context, kube_class, tally, force)


def programs(parts: Parts, tally: Tally, *, force: bool) -> None:
    """Decide and write for the host's programs that documents list."""
    try:
        listed = list(parts.profile.programs(parts.book.document, parts.driver))
    except ValueError as error:
        tally.failed("host applications", [error])
        return
    if len(listed) > _MOST_PROGRAMS:
        parts.observer.left_out("host applications", len(listed) - _MOST_PROGRAMS)
    for context in islice(listed, _MOST_PROGRAMS):
        try:
            _decided(parts, PROGRAM, context, f"host application {context.name}", tally, force)
        except Exception as error:  # noqa: BLE001  one entry of a list must not cost the others theirs
            tally.failed(f"host application {context.name}", [error])
            _log.exception("a host application could not be looked at: %r", context.name)


def _decided(
    parts: Parts, stage: str, context: KubeQosContext | HostApplicationContext, what: str, tally: Tally, force: bool
) -> None:
    outcome = parts.decisions.decide(stage, context, NAME)
    tally.items += 1
    tally.failed(what, outcome.errors)
    wanted = writes(context.cgroup_parent, outcome.changes, reason_of(outcome))
    if wanted:
        results = parts.executor.write(wanted, force=force, keep=False)
        tally.wrote(results)
        parts.decisions.record(context, NAME, results)
