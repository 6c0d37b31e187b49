"""Records of any size: histories, what shadow plugins would have done, updates that are kept."""

from __future__ import annotations

from collections.abc import Callable

from nri.adaptation.audit import shadow
from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.containers.inventory import Inventory
from nri.adaptation.merge import CreateMerge, StopMerge
from nri.api import messages as m
from nri.api.fields import Row
from tests.support.growing import big
from tests.support.growing.big import POD, Case, names


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


def refused(n: int) -> Callable[[], object]:
    """Events that are refused, of a container that stays, whose history is full of such."""
    request = m.UpdateContainerRequest(container=big.container()).SerializeToString()
    provenance = Provenance(max_containers=1, max_records=n)

    def run() -> None:
        for _ in range(n):
            provenance.record("UpdateContainer", "c", request, (), failed="no")
        provenance.stats()

    run()
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
            explanation = provenance.explain("made")
            assert explanation is not None
            explanation.rows()
            explanation.to_json()

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
        merge = StopMerge(m.StopContainerRequest(container=big.container()), containers=inventory.known)
        merge.apply("00-plugin", reply)
        for number, (plugin, update) in enumerate(merge.side.deferred):
            inventory.defer_update(plugin, update, "StopContainer", number)

    return run


CASES: dict[str, Case] = {
    "records: touched": touched,
    "records: refused": refused,
    **{f"records: history of {path}": history(row) for path, row in big.rows().items()},
    **{f"records: shadow, {path}": shadowed(row) for path, row in big.rows().items()},
    "records: kept updates": kept,
}
