"""Creations with adjustments of any size, from the first reply to the default validator's verdict."""

from __future__ import annotations

from collections.abc import Callable

from nri.adaptation.merge import CreateMerge
from nri.adaptation.peers.event_request import CreateRequest
from nri.api import messages as m
from nri.api.default_validator import DefaultValidator, ValidatorConfig
from nri.api.events import BY_METHOD
from nri.api.fields import Kind, Row
from nri.errors import NriError
from tests.support.growing import big
from tests.support.growing.big import POD, Case, names

VALIDATOR = DefaultValidator(
    ValidatorConfig(True, True, True, True, True, True, True, ("a", "b"), "tolerate.example.com")
)


def create(container: m.Container, *replies: m.CreateContainerResponse) -> Callable[[], object]:
    """One creation, from the first reply to the default validator's verdict; each reply is shown to the next plugin."""
    encoded = [reply.SerializeToString() for reply in replies]

    def run() -> None:
        request = m.CreateContainerRequest(pod=POD, container=container)
        merge = CreateMerge(request)
        shown = CreateRequest(BY_METHOD["create_container"], POD, container, merge)
        shown.encoded()
        for n, entry in enumerate(encoded):
            try:
                merge.apply(f"{n:02}-plugin", m.CreateContainerResponse.FromString(entry))
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


_KEYED = {path: row for path, row in big.rows().items() if row.kind in (Kind.KEYED, Kind.MAP)}

CASES: dict[str, Case] = {
    **{f"create: {path}": two_plugins(row) for path, row in big.rows().items()},
    **{f"create: {path}, taken over": taken_over(row) for path, row in _KEYED.items()},
    **{f"create: {path}, empty": empty_entries(row) for path, row in big.rows().items() if row.kind is not Kind.ARGS},
}
