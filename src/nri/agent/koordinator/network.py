"""The network of standalone mode: shares of the node's bandwidth for pods, and terway's files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from ipaddress import AddressValueError, IPv4Address
from typing import Any, Final

from nri.agent.koordinator import tc, terway
from nri.agent.koordinator.bandwidths import ANNOTATION_NETWORK_QOS
from nri.agent.koordinator.documents import SLO
from nri.agent.koordinator.names import LABEL_QOS, qos_class
from nri.agent.koordinator.reconcile import switched_on
from nri.agent.koordinator.tc import Plan, TcRule, Traffic, TrafficClass, own_minors
from nri.agent.koordinator.tc_programs import Shaper, default_interface
from nri.agent.last_good import LastGoodAnnotations
from nri.agent.model import NET_CLASS, HookError, Pod, Write
from nri.agent.parts import Parts
from nri.agent.settings.values import AgentSettings
from nri.agent.transports.standalone.pods import NAME as TRANSPORT
from nri.agent.transports.standalone.tally import Tally
from nri.host import ClassId, Outcome, Result

#: The maximum number of pods whose traffic is shaped.
_MAX_PODS: Final = 4096
#: The maximum number of addresses of a pod.
_MAX_ADDRESSES: Final = 8
_UNCLASSED: Final = f"annotation {ANNOTATION_NETWORK_QOS} requires a class (label {LABEL_QOS}), which the pod lacks"


class NetworkShares:
    """Applies shares of the node's bandwidth to pods.

    Args:
        parts: the shared parts of the agent.
        interface: the network interface; "" means the interface of the default route.
        shaper: the object that applies the plan.
    """

    def __init__(self, parts: Parts, interface: str = "", shaper: Shaper | None = None) -> None:
        self._parts, self._interface, self._shaper = parts, interface, shaper or Shaper()
        self._rule = TcRule()
        self._is_cleared = False
        self._good = LastGoodAnnotations()

    def apply(self, pods: Iterable[Pod], tally: Tally, *, force: bool) -> list[Result]:
        """Apply NodeSLO to the network. No effect before the first NodeSLO, or while the hook is off."""
        node, document = self._parts.decisions.node, self._parts.store.document(SLO)
        if document is None or not switched_on(node, tc.NAME):
            return []
        self._rule = tc.rule_of(document.get("spec"), self._rule, node.quirks)
        interface = self._interface or default_interface(self._parts.root)
        shares = tuple(tc.classes(self._rule))
        if not self._rule.enabled:
            results = [] if self._is_cleared else self._shaper.clear(interface)
            self._is_cleared = True
        elif not shares:
            reason = "NodeSLO lacks the node's bandwidth; set systemStrategy.totalNetworkBandwidth"
            results = [Result("node", "tc", "classes", Outcome.REFUSED, reason)]
        elif not interface:
            results = [Result("node", "tc", "classes", Outcome.REFUSED, "the machine has no default route")]
        else:
            self._is_cleared = False
            results = self._shape(interface, shares, list(pods), tally, force)
        self._parts.observer.wrote(results)
        tally.wrote(results)
        return results

    def _shape(
        self, interface: str, classes: tuple[TrafficClass, ...], pods: list[Pod], tally: Tally, force: bool
    ) -> list[Result]:
        if len(pods) > _MAX_PODS:
            self._parts.observer.left_out("tc pods", len(pods) - _MAX_PODS)
        shared: list[tuple[Pod, Traffic]] = []
        self._good.only({pod.uid for pod in pods})
        priorities = {qos_class.minor: qos_class.priority for qos_class in classes}
        for pod in pods[:_MAX_PODS]:
            tally.items += 1
            try:
                if not tc.minor_of(qos_class(pod.labels)):
                    asks = ANNOTATION_NETWORK_QOS in pod.annotations
                    self._parts.decisions.failed(pod, TRANSPORT, tc.NAME, _UNCLASSED if asks else "")
                    continue
                wrong: list[HookError] = []
                traffic = traffic_of(pod, wrong.append)
            except Exception as error:  # noqa: BLE001  an error of one pod must not stop the others
                tally.failed(pod.key, [error])
                continue
            if wrong:
                traffic = self._as_before(pod) or traffic
            else:
                self._good.keep(pod.uid, ANNOTATION_NETWORK_QOS, pod.annotations)
            tally.failed(pod.key, wrong)
            self._parts.decisions.failed(pod, TRANSPORT, tc.NAME, wrong[0].reason if wrong else "")
            if traffic.ingress:
                self._parts.decisions.record(pod, TRANSPORT, [_ingress(pod, traffic)])
            shared.append((pod, traffic._replace(priority=priorities.get(traffic.minor, 0))))
        minor_by_uid = own_minors(traffic.uid for _, traffic in shared if traffic.limit)
        shared = [
            (context, traffic_._replace(own_minor=minor_by_uid.get(traffic_.uid, 0))) for context, traffic_ in shared
        ]
        plan = Plan(
            interface,
            self._rule.bandwidths.hw_tx_bps_max,
            classes,
            tuple(traffic_ for _, traffic_ in shared),
            self._shaper.has_sets,
        )
        results = self._shaper.apply(plan)
        self._class_ids(shared, tally, force)
        return results

    def _as_before(self, pod: Pod) -> Traffic | None:
        """Return the traffic of a pod from its last readable annotation, or None if there is none."""
        instead = self._good.instead(pod.uid, ANNOTATION_NETWORK_QOS, pod.annotations)
        return None if instead is None else traffic_of(replace(pod, annotations=instead), lambda _: None)

    def _class_ids(self, shared: list[tuple[Pod, Traffic]], tally: Tally, force: bool) -> None:
        """Write the traffic class of each pod to its cgroup."""
        writes = [
            Write(context.folder, NET_CLASS, str(ClassId(1, traffic.class_minor).number), tc.NAME)
            for context, traffic in shared
        ]
        results = self._parts.executor.write(writes, force=force, keep=False)
        for (context, _), result in zip(shared, results, strict=True):
            self._parts.decisions.record(context, TRANSPORT, [result])
        tally.wrote(results)


def traffic_of(pod: Pod, failed: Callable[[HookError], None]) -> Traffic:
    """Return the traffic of a pod. An unreadable annotation is reported and sets no limit."""
    limit = ingress = 0
    try:
        ingress, limit = tc.own_limits(pod.annotations)
    except HookError as error:
        failed(error)
    minor = tc.minor_of(qos_class(pod.labels))
    return Traffic(pod.uid, minor, addresses=_addresses(pod.manifest), limit=limit, ingress=ingress)


def _ingress(context: Pod, traffic: Traffic) -> Result:
    reason = "only egress of a pod is shaped"
    return Result(context.folder, "tc.ingress", traffic.ingress, Outcome.UNSUPPORTED, reason)


def _addresses(pod: Mapping[str, Any]) -> tuple[str, ...]:
    if (pod.get("spec") or {}).get("hostNetwork"):
        return ()
    status = pod.get("status") or {}
    texts = [text.get("ip") for text in status.get("podIPs") or ()][:_MAX_ADDRESSES] or [status.get("podIP")]
    addresses = []
    for text in texts:
        try:
            addresses.append(str(IPv4Address(text or "")))
        except (AddressValueError, ValueError):  # no address yet, or an IPv6 address
            continue
    return tuple(dict.fromkeys(addresses))


class Network:
    """Koordinator's work in a round over the network.

    Args:
        settings: the settings of the agent; `terway` and `tc` are read.
        parts: the shared parts of the agent.
        shaper: the object that applies traffic classes.
    """

    def __init__(self, settings: AgentSettings, parts: Parts, shaper: Shaper | None = None) -> None:
        self._parts = parts
        self._shares = NetworkShares(parts, settings.tc.interface, shaper)
        self._terway, self._good = str(settings.terway.folder), LastGoodAnnotations()

    def apply(self, pods: Iterable[Pod], tally: Tally, *, force: bool) -> list[Result]:
        """Apply NodeSLO and the annotations of pods to traffic classes and terway's files."""
        listed = list(pods)
        results = self._shares.apply(listed, tally, force=force)
        return results + terway.apply(self._parts, self._terway, listed, tally, self._good)
