"""Removal marks, optional values, effective annotations, readers and the failure policy."""

import copy
import pickle

import pytest

from nri.api import messages as m
from nri.api import optional, readers, removal
from nri.api.annotations import effective
from nri.api.failure import FailurePolicy


def test_a_mark_is_one_dash_in_front() -> None:
    assert removal.mark("k") == "-k"
    assert removal.split("-k") == ("k", True)
    assert removal.split("--k") == ("-k", True)
    assert removal.split("k-") == ("k-", False)
    assert removal.split("-") == ("", True)
    assert removal.is_marked("-k")


def test_the_empty_key_is_never_a_mark() -> None:
    assert removal.split("") == ("", False)
    assert not removal.is_marked("")


def test_an_absent_wrapper_is_none_and_zero_is_not() -> None:
    memory = m.LinuxMemory(limit=m.OptionalInt64(value=0))
    assert optional.get(memory, "limit") == 0
    assert optional.get(memory, "swap") is None
    assert not memory.HasField("swap"), "reading must not set"


def test_values_of_every_kind_of_wrapper_are_read() -> None:
    rdt = m.LinuxRdt()
    optional.put(rdt, "clos_id", "c")
    optional.put(rdt, "schemata", ["a", "b"])
    optional.put(rdt, "enable_monitoring", False)
    assert optional.get(rdt, "clos_id") == "c"
    assert optional.get(rdt, "schemata") == ["a", "b"]
    assert optional.get(rdt, "enable_monitoring") is False
    resources = m.LinuxResources()
    optional.put(resources, "pids", -1)
    assert optional.get(resources, "pids") == -1


def test_none_makes_a_wrapper_absent() -> None:
    memory = m.LinuxMemory(limit=m.OptionalInt64(value=1))
    optional.put(memory, "limit", None)
    assert not memory.HasField("limit")


@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), ("x", TypeError), (1 << 64, ValueError)])
def test_a_wrong_value_changes_nothing_and_is_named(value: object, error: type[Exception]) -> None:
    cpu = m.LinuxCPU()
    with pytest.raises(error, match="shares"):
        optional.put(cpu, "shares", value)
    assert not cpu.HasField("shares"), "an empty wrapper would mean zero"


def test_the_most_specific_annotation_counts() -> None:
    pod = m.PodSandbox(annotations={"k": "plain"})
    assert effective(pod, "k", "c") == "plain"
    pod.annotations["k/pod"] = "pod"
    assert effective(pod, "k", "c") == "pod"
    pod.annotations["k/container.c"] = ""
    assert effective(pod, "k", "c") == ""
    assert effective(pod, "k", "other") == "pod"
    assert effective(pod, "k") == "pod"
    assert effective(pod, "absent", "c") is None


def test_a_containers_lists_read_as_dictionaries() -> None:
    container = m.Container(
        env=["A=1", "B=x=y", "C", "A=2"],
        mounts=[m.Mount(destination="/a", source="/s")],
        rlimits=[m.POSIXRlimit(type="RLIMIT_CORE", hard=2, soft=1)],
        linux=m.LinuxContainer(
            devices=[m.LinuxDevice(path="/dev/x", type="c")], namespaces=[m.LinuxNamespace(type="pid", path="/p")]
        ),
    )
    assert readers.env_of(container) == {"A": "2", "B": "x=y", "C": ""}
    assert readers.mounts_of(container)["/a"].source == "/s"
    assert readers.devices_of(container)["/dev/x"].type == "c"
    assert readers.namespaces_of(container) == {"pid": "/p"}
    assert readers.rlimits_of(container) == {"RLIMIT_CORE": (2, 1)}


def test_a_failure_policy_is_a_value() -> None:
    policy = FailurePolicy(fail_request=True, keep_connected=True)
    assert policy == FailurePolicy(keep_connected=True, fail_request=True)
    assert policy != FailurePolicy()
    assert len({policy, FailurePolicy(fail_request=True, keep_connected=True)}) == 1
    assert repr(policy) == "FailurePolicy(fail_request=True, keep_connected=True)"
    assert pickle.loads(pickle.dumps(policy)) == copy.deepcopy(policy) == policy


def test_a_failure_policy_becomes_a_message_and_back() -> None:
    policy = FailurePolicy(fail_request=True)
    assert policy.message == m.FailurePolicy(fail_request=True)
    assert FailurePolicy.of(policy.message) == policy


def test_a_failure_policy_cannot_change_or_hold_anything_but_bools() -> None:
    with pytest.raises(AttributeError, match="fail_request"):
        FailurePolicy().fail_request = True
    with pytest.raises(AttributeError):
        del FailurePolicy().fail_request
    with pytest.raises(TypeError, match="keep_connected must be a bool, not 'yes'"):
        FailurePolicy(keep_connected="yes")
