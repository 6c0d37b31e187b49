"""The limits of a trace reader grow with the number of bytes read, and skipped data is reported."""

from __future__ import annotations

import pytest

from nri.api import messages as m
from nri.testing import make_container, make_pod
from nri.trace.allowance import Allowance
from nri.wire import bytes_field


def test_the_number_of_records_is_bounded_by_the_bytes_read() -> None:
    allowance = Allowance()
    assert sum(allowance.has_record() for _ in range(60_000)) == 50_000
    allowance.read_bytes = 10_050
    assert sum(allowance.has_record() for _ in range(100)) == 50


def test_the_longest_record_is_bounded_by_the_bytes_read() -> None:
    allowance = Allowance()
    lengths = []
    for read_bytes in (0, 10_000, 1 << 30):
        allowance.read_bytes = read_bytes
        lengths.append(allowance.record_bytes)
    assert lengths == [1100 << 10, (1100 << 10) + 320_000, 5 << 20]


def test_a_state_of_hundreds_of_real_containers_is_parsed() -> None:
    pod = make_pod(id="p1", name="web", namespace="shop")
    env = {f"VARIABLE_{number}": f"a value of some length, number {number}" for number in range(40)}
    containers = [make_container(id=f"{number:064}", name="app", pod=pod, env=env) for number in range(600)]
    for container in containers:
        for number in range(12):
            mount = container.mounts.add(destination=f"/var/run/secrets/of/pod/{number}", type="bind")
            mount.source = f"/var/lib/kubelet/pods/p1/volumes/kubernetes.io~projected/volume-{number}"
            mount.options.extend(["rbind", "rprivate", "ro"])
    state = m.SynchronizeRequest(pods=[pod], containers=containers)
    allowance = Allowance()
    assert allowance.parse("Synchronize", state.SerializeToString(), reply=False) == state


@pytest.mark.parametrize(
    "data",
    [
        b"\x12\x00" * 50_000,
        bytes_field(2, bytes_field(3, b"small")) * 10_000,
        bytes_field(2, bytes_field(9, b"") * 120_000),
        bytes_field(2, bytes_field(21, bytes_field(3, b"\x01" * 200_000))),
    ],
    ids=["empty containers", "small containers", "empty mounts", "numbers"],
)
def test_a_message_with_too_many_values_is_skipped_and_counted(data: bytes) -> None:
    lost: list[str] = []
    allowance = Allowance(lost.append)
    allowance.read_bytes = 1 << 20
    event = "Synchronize" if data.startswith((b"\x12\x00", b"\x12\x07")) else "CreateContainer"
    assert allowance.parse(event, data, reply=False) is None
    assert lost == ["message"]


def test_the_values_of_all_short_messages_share_a_limit() -> None:
    lost: list[str] = []
    allowance = Allowance(lost.append)
    dense = bytes_field(2, bytes_field(8, b"") * 10_000)
    parsed = sum(allowance.parse("CreateContainer", dense, reply=False) is not None for _ in range(100))
    assert 20 <= parsed <= 40 and len(lost) == 100 - parsed
    allowance.read_bytes = 1 << 20
    assert allowance.parse("CreateContainer", dense, reply=False) is not None, "more was read"


def test_values_converted_to_json_are_bounded() -> None:
    allowance, dense = Allowance(), bytes_field(2, bytes_field(8, b"") * 40_000)
    assert allowance.json_values(m.CreateContainerRequest, dense, 50_000) == 40_000
    assert allowance.json_values(m.CreateContainerRequest, dense, 50_000) is None, "more than is left"
    allowance.read_bytes = 10_000
    assert allowance.json_values(m.CreateContainerRequest, dense, 30_000) is None, "more than the caller takes"
    assert allowance.json_values(m.CreateContainerRequest, b"", 0) == 0
