"""The node under attack: an adaptation on a socket, four threads of events, and a count of all that must be bounded.

As a program: `python -m tests.torture.node`. The first line on stdin has the options, as JSON; the others are
commands: ``ready NN-name ...`` waits for plugins, ``begin`` notes what the process holds and starts the events,
``end`` stops them, waits for what the attack has left behind, and tells everything, ``exit`` stops the adaptation.
Each is answered by a line of JSON. Its events are `tests.torture.lives`; what follows from the numbers is
`tests.torture.judge`.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import resource
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nri.adaptation import Adaptation
from nri.adaptation.registration import deferred_updates, update_queue
from nri.api import messages as m
from nri.api.default_validator import ValidatorConfig
from tests.torture.holdings import Holdings
from tests.torture.lives import Events

THREADS = 4
IDLE_S = 0.5
#: Until all that was at work has ended, beside plugins that may go on joining for a while.
SETTLE_S = 30.0
#: What the process may use at all: a node that takes more fails the attack, and not the machine that tests it.
ADDRESS_SPACE = 4 << 30


@dataclass
class Options:
    """What an attack may want of the node.

    Attributes:
        folder: where its socket, its log and its files are.
        timeout_s: how long a plugin has for a request.
        registration_timeout_s: how long a connection may stay without a name.
        policy: text of policy.toml, or "".
        validator: configuration of the default validator, or none.
        plugins: whether it launches those in the folder ``plugins``, with the drop-ins of ``conf.d``.
        snapshot_s: how long its `synchronize` takes.
        standing: containers that are there all the time.
        histories: containers that have a history before the attack begins.
        annotations: of every pod.
        compat: "default" or "reference".
    """

    folder: str
    timeout_s: float = 1.0
    registration_timeout_s: float = 5.0
    policy: str = ""
    validator: dict[str, Any] = field(default_factory=dict)
    plugins: bool = False
    snapshot_s: float = 0.0
    standing: int = 20
    histories: int = 0
    annotations: dict[str, str] = field(default_factory=dict)
    compat: Literal["default", "reference"] = "default"


class Overtaking:
    """A reporter that notes the events which did not get their turn at some plugin in time: those may pass others."""

    def __init__(self) -> None:
        self._begun: dict[int, bytes] = {}
        self.events: list[tuple[str, str]] = []

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        """Remember what it is about."""
        self._begun[serial] = request

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        """Note it, if that is why."""
        if "busy with earlier events" in str(error):
            # Each event's request begins as this one does: with the pod.
            self.events.append((event, m.RunPodSandboxRequest.FromString(self._begun[serial]).pod.id))

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        """Forget it."""
        self._begun.pop(serial, None)

    def taken(self) -> list[tuple[str, str]]:
        """All since the last call."""
        events, self.events = self.events, []
        return events

    def no(self, *_: object) -> None:
        """Of no interest."""

    plugin_asked = plugin_answered = reply_merged = no


class Node:
    """The runtime's side."""

    def __init__(self, options: Options) -> None:
        self.options = options
        folder = Path(options.folder)
        policy = folder / "policy.toml"
        if options.policy:
            policy.write_text(options.policy)
        self.pods = [m.PodSandbox(id=f"pod-{n}", name=f"pod-{n}") for n in range(options.standing)]
        self.containers = [
            m.Container(id=f"standing-{n}", pod_sandbox_id=f"pod-{n}", name="main") for n in range(options.standing)
        ]
        self.snapshots = self.updated = self.evicted = self.rounds = 0
        #: When each snapshot began, and how long it took, in seconds.
        self.joins: list[tuple[float, float]] = []
        self.overtaking = Overtaking()
        self.adaptation = Adaptation(
            "torture",
            "v1",
            synchronize=self.snapshot,
            update=self.update,
            evict=self.evict,
            socket_path=str(folder / "nri.sock"),
            admin_socket=str(folder / "admin.sock"),
            plugin_path=str(folder / "plugins") if options.plugins else "/nonexistent",
            plugin_config_path=str(folder / "conf.d"),
            policy_path=str(policy) if options.policy else None,
            compat=options.compat,
            request_timeout_s=options.timeout_s,
            registration_timeout_s=options.registration_timeout_s,
            reporters=[self.overtaking],
            default_validator=ValidatorConfig.from_dict(options.validator) if options.validator else None,
        )
        self.adaptation.start()

    # -- the callbacks ------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """All that stands."""
        self.snapshots += 1
        began = time.monotonic()
        time.sleep(self.options.snapshot_s)
        self.joins.append((began, time.monotonic() - began))
        return self.pods, self.containers

    def share_of_joins(self) -> float:
        """The part of the time since `begin` for which joiners held up events, from the first of them to the last."""
        joins, self.joins = self.joins, []
        if len(joins) < 3:
            return 0.0
        return sum(took_s for _, took_s in joins[:-1]) / (joins[-1][0] - joins[0][0])

    def update(self, updates: list[m.ContainerUpdate]) -> None:
        """Count what plugins want."""
        self.updated += len(updates)

    def evict(self, evictions: list[m.ContainerEviction]) -> None:
        """Count likewise."""
        self.evicted += len(evictions)

    def make_histories(self) -> None:
        """Create containers, so that there is something to be forgotten."""
        for n in range(self.options.histories):
            pod = m.PodSandbox(id=f"kept-pod-{n}", name=f"kept-{n}", namespace="torture")
            reply = self.adaptation.create_container(pod, m.Container(id=f"kept-{n}", pod_sandbox_id=pod.id))
            reply.commit()

    def forgotten(self) -> int:
        """How many of those are known no more."""
        records = self.adaptation.provenance
        assert records is not None
        return sum(records.explain(f"kept-{n}") is None for n in range(self.options.histories))


def serve(node: Node) -> None:
    """Do what is asked on stdin."""
    holdings: Holdings | None = None
    threads: list[Events] = []
    for line in sys.stdin:
        command, *labels = line.split()
        answer: dict[str, Any] = {}
        if command == "ready":
            answer["ready"] = node.adaptation.ready(labels, 30)
        elif command == "begin":
            node.rounds += 1
            if node.rounds == 1:
                node.make_histories()
            holdings = Holdings()
            node.joins.clear()
            threads = [Events(node, number) for number in range(THREADS)]
            for thread in threads:
                thread.thread.start()
        elif command == "end":
            assert holdings is not None
            answer = _end(node, threads, holdings)
        else:
            node.adaptation.stop()
            return
        print(json.dumps(answer), flush=True)


def _end(node: Node, threads: list[Events], holdings: Holdings) -> dict[str, Any]:
    for thread in threads:
        thread.stopping = True
    until = time.monotonic() + 20 * node.options.timeout_s + 10
    for thread in threads:
        thread.thread.join(max(0.0, until - time.monotonic()))
    hanging = [thread.thread.name for thread in threads if thread.thread.is_alive()]
    if hanging:
        faulthandler.dump_traceback()
    holdings.end()
    after = holdings.settle(SETTLE_S)
    return {
        "events": [thread.record for thread in threads],
        "hanging": hanging,
        "overtook": node.overtaking.taken(),
        "before": holdings.before,
        "most": holdings.most,
        "after": after,
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "forgotten": node.forgotten(),
        "snapshots": node.snapshots,
        "share_of_joins": node.share_of_joins(),
        "updated": node.updated,
        "plugins": [row.to_json() for row in node.adaptation.plugins],
    }


def main() -> int:
    """Be a node until stdin ends."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    options = Options(**json.loads(sys.stdin.readline()))
    # Threads that have nothing to do end sooner, so that the look at what is left need not wait for them.
    update_queue.IDLE_S = deferred_updates.IDLE_S = IDLE_S
    form = "%(levelname)s %(name)s: %(message)s"
    logging.basicConfig(filename=f"{options.folder}/log", level=logging.INFO, format=form)
    node = Node(options)
    print("{}", flush=True)
    serve(node)
    return 0


if __name__ == "__main__":
    sys.exit(main())
