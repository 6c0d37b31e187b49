"""How cost grows with its input: `python -m bench.linear [CASE...]`. Twice the input costs at most 2.3 times as much.

Everything that a plugin, a pod's annotations or a file can make big is measured at a size and at twice that, in
processor time, the best of several runs, both sizes in turn. The last line names what grows faster than that, and then
the exit code is 1. No sockets and no threads: what is measured is the work behind them.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from typing import Any

from bench import big
from nri.adaptation import Adaptation, BuiltinPlugin
from nri.adaptation.audit import shadow
from nri.adaptation.audit.inventory import Inventory
from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.merge import CreateMerge, StopMerge, UpdateMerge
from nri.adaptation.merge.fields import Kind, Row
from nri.adaptation.peers.event_request import CreateRequest
from nri.adaptation.plugin_policy import allow
from nri.api import messages as m
from nri.api.annotations import REQUIRED_PLUGINS
from nri.api.events import BY_METHOD
from nri.api.selectors import Filters, Pattern, Selector
from nri.config import Source, read
from nri.errors import ConfigError, NriError
from nri.policies import default_validator
from nri.policies.default_validator import DefaultValidator, ValidatorConfig

#: Twice the input may cost so many times as much.
MOST = 2.3
RUNS = 5
#: A run that is shorter than this is done with a larger input, in seconds.
SHORTEST_S = 0.02
LARGEST = 128_000

#: A case makes its input of a size, and returns what is measured.
Case = Callable[[int], Callable[[], object]]
POD = m.PodSandbox(id="pod", name="pod", namespace="web")
VALIDATOR = DefaultValidator(
    ValidatorConfig(True, True, True, True, True, True, True, ("a", "b"), "tolerate.example.com")
)


def names(prefix: str, count: int) -> list[str]:
    """So many keys."""
    return [f"{prefix}{n}" for n in range(count)]


# -- creations --------------------------------------------------------------------------------------------------------


def create(container: m.Container, *replies: m.CreateContainerResponse) -> Callable[[], object]:
    """One creation, from the first reply to the default validator's verdict; each reply is shown to the next plugin."""
    encoded = [reply.SerializeToString() for reply in replies]

    def run() -> None:
        request = m.CreateContainerRequest(pod=POD, container=container)
        merge = CreateMerge(request)
        shown = CreateRequest(BY_METHOD["create_container"], POD, container, merge)
        shown.encoded()
        for n, reply in enumerate(encoded):
            try:
                merge.apply(f"{n:02}-plugin", m.CreateContainerResponse.FromString(reply))
            except NriError:
                continue
            shown.refresh()
            shown.encoded()
        shown.container_seen()
        reply = merge.reply()
        VALIDATOR.validate(
            m.ValidateContainerAdjustmentRequest(
                pod=POD, container=container, adjust=reply.adjust, update=reply.update, owners=merge.owners()
            )
        )
        merge.ledger.claims()

    return run


def two_plugins(row: Row) -> Case:
    """Two plugins set one field of a container that has some already."""
    return lambda n: create(
        big.container(row, names("own", n)),
        big.adjustment(row, names("a", n)),
        big.adjustment(row, names("b", n)),
    )


def taken_over(row: Row) -> Case:
    """What the container has and the first plugin set is removed or set again by the others."""
    mark = "-" if row.removable else ""

    def case(n: int) -> Callable[[], object]:
        first = big.adjustment(row, names("a", n))
        second = big.adjustment(row, [*(mark + key for key in names("a", n)), *names("own", n), *names("a", n)])
        third = big.adjustment(row, [mark + key for key in (*names("own", n), *names("none", n))])
        return create(big.container(row, names("own", n)), first, second, third)

    return case


def empty_entries(row: Row) -> Case:
    """Entries with nothing in them."""
    return lambda n: create(big.container(), big.adjustment(row, [""] * n), big.adjustment(row, [""] * n))


# -- updates ----------------------------------------------------------------------------------------------------------


def update_event(*replies: m.UpdateContainerResponse, known: Any = None) -> Callable[[], object]:
    """One UpdateContainer, each reply shown to the next plugin."""
    encoded = [reply.SerializeToString() for reply in replies]

    def run() -> None:
        merge = UpdateMerge(m.UpdateContainerRequest(container=big.container()), known=known)
        for n, reply in enumerate(encoded):
            merge.apply(f"{n:02}-plugin", m.UpdateContainerResponse.FromString(reply))
            merge.resources.SerializeToString()
        merge.reply().SerializeToString()
        merge.owners()

    return run


def updates_of_one(row: Row) -> Case:
    """Many updates of the requested container, an entry each."""

    def case(n: int) -> Callable[[], object]:
        reply = m.UpdateContainerResponse()
        for key in names("k", n):
            big.fill(reply.update.add(container_id="made"), row, [key])
        return update_event(reply)

    return case


def updates_of_other(row: Row) -> Case:
    """Many updates of one other container, an entry each, all of them twice."""

    def case(n: int) -> Callable[[], object]:
        reply = m.StopContainerResponse()
        for key in (*names("k", n), *names("k", n)):
            big.fill(reply.update.add(container_id="other"), row, [key])

        def run() -> None:
            merge = StopMerge(m.StopContainerRequest(container=big.container()))
            merge.apply("00-plugin", reply)
            merge.reply()

        return run

    return case


def update_of_many_keys(row: Row) -> Case:
    """One update of the requested container with many entries, by two plugins."""

    def case(n: int) -> Callable[[], object]:
        replies = [m.UpdateContainerResponse() for _ in "ab"]
        for prefix, reply in zip("ab", replies, strict=True):
            big.fill(reply.update.add(container_id="made"), row, names(prefix, n))
        return update_event(*replies)

    return case


def updates_of_all(n: int) -> Callable[[], object]:
    """One update for each of many containers."""
    return update_event(m.UpdateContainerResponse(update=big.updates(n)))


def conflicts_ignored(n: int) -> Callable[[], object]:
    """Updates in conflict with an earlier plugin's, each of which may fail."""
    first, second = (m.UpdateContainerResponse(update=big.updates(n)) for _ in "ab")
    for each in second.update:
        each.ignore_failure = True
    return update_event(first, second)


def evictions(n: int) -> Callable[[], object]:
    """Many evictions."""
    reply = m.UpdateContainerResponse()
    for one in names("c", n):
        reply.evict.add(container_id=one, reason="why")
    return update_event(reply)


# -- whole events, with records ---------------------------------------------------------------------------------------


class _Answers:
    """A built-in plugin with given answers."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def create_container(self, pod: Any, container: Any) -> Any:
        return self.answers.get("create")

    def stop_container(self, pod: Any, container: Any) -> Any:
        return self.answers.get("stop")

    def synchronize(self, pods: Any, containers: Any) -> Any:
        return self.answers.get("synchronize")


def node(containers: int, plugin: _Answers, **more: Any) -> Adaptation:
    """A runtime with so many containers, c0 and so on."""
    state = [POD], [m.Container(id=f"c{n}", pod_sandbox_id="pod") for n in range(containers)]
    made = Adaptation(
        "bench", "1", synchronize=lambda: state, update=lambda updates: [], plugin_path="/nonexistent",
        builtin=[BuiltinPlugin("10", "p", plugin)], disable_connections=True, policy_path=None, **more,
    )  # fmt: skip
    made.start()
    return made


def rebalance(n: int) -> Callable[[], object]:
    """A creation in which all other containers are updated, committed; and one that is aborted."""
    runtime = node(n, _Answers(create=big.updates(n)))

    def run() -> None:
        runtime.create_container(POD, big.container(container_id="made")).commit()
        runtime.create_container(POD, big.container(container_id="other")).abort()
        runtime.stop_container(POD, big.container(container_id="c0"))

    return run


def absent(n: int) -> Callable[[], object]:
    """A reply that updates containers that are not there."""
    runtime = node(1, _Answers(stop=big.updates(n, "none")))
    return lambda: runtime.stop_container(POD, big.container(container_id="c0"))


def joining(n: int) -> Callable[[], object]:
    """A plugin that joins and asks for an update of all containers."""
    return lambda: node(n, _Answers(synchronize=big.updates(n)))


# -- records ----------------------------------------------------------------------------------------------------------


def touched(n: int) -> Callable[[], object]:
    """A reply that touches many containers, several times, told of all."""
    reply = m.StopContainerResponse(update=big.updates(n)).SerializeToString()
    ids = names("c", n)

    def run() -> None:
        provenance = Provenance(max_containers=2 * n)
        for _ in range(3):
            provenance.record("StopContainer", "made", b"", [("10-p", reply)], ids)
        provenance.stats()
        for one in ids:
            provenance.explain(one)

    return run


def history(row: Row) -> Case:
    """The history of a container with big adjustments."""

    def case(n: int) -> Callable[[], object]:
        container = big.container(row, names("own", n))
        request = m.CreateContainerRequest(pod=POD, container=container).SerializeToString()
        replies = [
            (f"{at:02}-p", big.adjustment(row, names(prefix, n)).SerializeToString()) for at, prefix in enumerate("ab")
        ]

        def run() -> None:
            provenance = Provenance()
            provenance.record("CreateContainer", "made", request, replies)
            made = provenance.explain("made")
            assert made is not None
            made.rows()
            made.to_json()

        return run

    return case


def shadowed(row: Row) -> Case:
    """What is told of a shadow plugin's answer."""

    def case(n: int) -> Callable[[], object]:
        container = big.container(row, names("own", n))
        reply = big.adjustment(row, names("own", n))
        merge = CreateMerge(m.CreateContainerRequest(container=container))
        merge.apply("00-a", big.adjustment(row, names("a", n)))
        return lambda: str(shadow.report("10-s", "CreateContainer", POD, container, reply, ledger=merge.ledger))

    return case


def kept(n: int) -> Callable[[], object]:
    """Updates in one reply of a container that is being created."""
    reply = m.StopContainerResponse()
    for one in range(n):
        resources = reply.update.add(container_id="c").linux.resources
        resources.unified[f"k{one}"] = "v"
        resources.hugepage_limits.add(page_size=f"{one}MB")

    def run() -> None:
        inventory = Inventory()
        inventory.creating("c", "web")
        merge = StopMerge(m.StopContainerRequest(container=big.container()), known=inventory.known)
        merge.apply("00-plugin", reply)
        for number, (plugin, update) in enumerate(merge.book.kept):
            inventory.keep_update(plugin, update, "StopContainer", number)

    return run


# -- policy -----------------------------------------------------------------------------------------------------------


def allowed_updates(n: int) -> Callable[[], object]:
    """Updates held to what the operator allows."""
    policy = allow.Allow(
        namespaces=(Pattern.parse("web"),),
        fields=tuple(allow.AllowedField.parse(name) for name in ("CPUShares", "linux.resources.memory", "Env")),
    )
    updates = big.updates(n)
    return lambda: allow.breach(policy, "10-p", "web", update=updates, namespace_of=lambda _: "web")


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
        default_validator._names.cache_clear()
        default_validator.LONGEST_ANNOTATION = len(annotation)
        VALIDATOR.validate(request)

    return run


# -- configuration ----------------------------------------------------------------------------------------------------


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


_REMOVABLE = {path: row for path, row in big.rows().items() if row.kind in (Kind.KEYED, Kind.MAP)}
_RESOURCES = {path: row for path, row in big.rows("linux.resources.").items() if row.kind is not Kind.LIST}

CASES: dict[str, Case] = {
    **{f"create: {path}": two_plugins(row) for path, row in big.rows().items()},
    **{f"create: {path}, taken over": taken_over(row) for path, row in _REMOVABLE.items()},
    **{f"create: {path}, empty": empty_entries(row) for path, row in big.rows().items() if row.kind is not Kind.ARGS},
    **{f"update: {path}, one update": update_of_many_keys(row) for path, row in _RESOURCES.items()},
    **{f"update: {path}, an update each": updates_of_one(row) for path, row in _RESOURCES.items()},
    **{f"update: {path}, of another": updates_of_other(row) for path, row in _RESOURCES.items()},
    "update: all containers": updates_of_all,
    "update: conflicts ignored": conflicts_ignored,
    "update: evictions": evictions,
    "event: rebalance": rebalance,
    "event: absent containers": absent,
    "join: update all containers": joining,
    "records: touched": touched,
    **{f"records: history of {path}": history(row) for path, row in big.rows().items()},
    **{f"records: shadow, {path}": shadowed(row) for path, row in big.rows().items()},
    "records: kept updates": kept,
    "policy: allow": allowed_updates,
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


def cost_s(work: Callable[[], object]) -> float:
    """Processor time of one run, in seconds."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    work()
    took = time.process_time() - began
    gc.enable()
    return took


def measure(case: Case, size: int = 2000) -> tuple[int, float, float]:
    """The size, and the best costs of it and of twice that, in seconds."""
    while True:
        once = case(size)
        once()  # the first time, modules are imported
        took = cost_s(once)
        if took >= SHORTEST_S or size >= LARGEST:
            break
        size *= 2
    twice = case(2 * size)
    runs = RUNS if took < 1 else 1
    pairs = [(cost_s(once), cost_s(twice)) for _ in range(runs)]
    return size, min(one for one, _ in pairs), min(two for _, two in pairs)


def main() -> int:
    """Measure, and print a line for each case."""
    parser = argparse.ArgumentParser(prog="python -m bench.linear", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="those that begin with this; default: all")
    wanted = parser.parse_args().cases
    chosen = {name: case for name, case in CASES.items() if not wanted or name.startswith(tuple(wanted))}
    bad = []
    print(f"{'case':52} {'entries':>8} {'ms':>9} {'twice':>9}  times")
    for name, case in chosen.items():
        size, once, twice = measure(case)
        if twice > MOST * once:  # once more: the machine has others to serve
            again = measure(case, size)
            if again[2] / again[1] < twice / once:
                size, once, twice = again
        growth = twice / once
        if growth > MOST:
            bad.append(name)
        print(f"{name:52} {size:8} {once * 1e3:9.2f} {twice * 1e3:9.2f}  {growth:5.2f}", flush=True)
    print(f"over {MOST}: {', '.join(bad)}" if bad else f"none over {MOST}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
