"""The RDMA devices of a container."""

import json
from collections.abc import Sequence

import pytest

from nri.agent.koordinator import gpu, names, rdma
from nri.agent.model import Container, HookError, Pod


def container(allocated: object, hami: bool = False) -> Container:
    labels = {gpu.LABEL_GPU_ISOLATION: "HAMi-core"} if hami else {}
    text = allocated if isinstance(allocated, str) else json.dumps(allocated)
    return Container(Pod(uid="u", labels=labels, annotations={names.ANNOTATION_DEVICES: text}), name="c")


class Machine:
    """Verbs by PCI function, and numbers by node."""

    def __init__(self, verbs: dict[str, list[str]]) -> None:
        self._verbs = verbs

    def verbs(self, pci_address: str) -> Sequence[str]:
        if pci_address not in self._verbs:
            raise FileNotFoundError(f"no {pci_address}")
        return self._verbs[pci_address]

    def numbers(self, path: str) -> tuple[int, int]:
        if path.endswith("uverbs9"):
            raise FileNotFoundError(f"no {path}")
        return 231, len(path)


MACHINE = Machine(
    {"pf": ["uverbs1", "uverbs0"], "vf1": ["uverbs2"], "vf2": ["uverbs3"], "empty": [], "lost": ["uverbs9"]}
)


def test_virtual_functions_come_before_the_physical_one() -> None:
    allocated = {"rdma": [{"id": "pf", "extension": {"vfs": [{"busID": "vf2"}, {"busID": "vf1"}]}}, {"id": "pf"}]}
    paths = [device.path for device in rdma.container(container(allocated), MACHINE).changes.devices]
    assert paths == [f"/dev/infiniband/{name}" for name in ("rdma_cm", "uverbs3", "uverbs2", "uverbs0")]
    assert not rdma.container(container({"rdma": []}), MACHINE).changes


@pytest.mark.parametrize(
    ("address", "message"), [("absent", "absent"), ("empty", "empty has no verbs"), ("lost", "uverbs9")]
)
def test_a_missing_rdma_device_is_an_error_with_its_name(address: str, message: str) -> None:
    """The original panics for a function without verbs."""
    with pytest.raises(HookError, match=message) as caught:
        rdma.container(container({"rdma": [{"id": address}]}), MACHINE)
    assert [device.path for device in caught.value.partial.devices] == ["/dev/infiniband/rdma_cm"]
