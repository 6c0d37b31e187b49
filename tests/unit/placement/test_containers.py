"""Annotations of containers, and changed pins."""

from nri.kube.requests import ANNOTATION, Requests
from nri.placement.containers import Changes, Pins, container_of
from nri.placement.zones import HBM
from nri.testing import make_container, make_pod
from tests.support.placement import container


def test_invalid_annotations_are_ignored_and_reported_once() -> None:
    one = container("main", hide_hyperthreads="perhaps", memory_type="ram", **{"cpu.preserve": "yes"})
    assert one.scoped_flag("hide-hyperthreads") is None
    assert one.scoped_flag("hide-hyperthreads") is None
    assert one.memory_mask() == 0
    assert not one.preserves("cpu")
    assert [doubt.split(":")[0] for doubt in one.doubts] == [
        "annotation hide-hyperthreads.resource-policy.nri.io",
        "annotation memory-type.resource-policy.nri.io",
        "annotation cpu.preserve.resource-policy.nri.io",
    ]


def test_annotations_have_a_scope_and_a_value() -> None:
    one = container("main", **{"cpu.preserve": "true", "memory_type": "hbm", "prefer_shared_cpus/pod": "t"})
    assert one.preserves("cpu")
    assert not one.preserves("memory")
    assert one.memory_mask() == HBM
    assert one.scoped_annotation("memory-type") == (2, "hbm")
    assert str(one) == "default/main/main"


def test_a_container_is_read_from_its_nri_messages() -> None:
    pod = make_pod(name="web", namespace="prod", labels={"app": "shop"})
    pod.linux.cgroup_parent = "/kubepods/burstable/pod1"
    main = make_container(name="main")
    main.linux.resources.cpu.shares.value, main.linux.resources.cpu.mems = 512, "0"
    main.linux.oom_score_adj.value = 900
    placed = container_of(pod, main, 1000)
    assert (str(placed), placed.qos, placed.mems, placed.shares) == ("prod/web/main", "Burstable", "0", 512)
    assert placed.requests == Requests(500, 0, 100, 0)
    assert placed.pod.labels == {"app": "shop"}
    pod.annotations[ANNOTATION] = '{"containers": {"main": {"requests": {"cpu": "2"}}}}'
    exact = container_of(pod, main, 1000)
    assert (exact.requests, exact.doubts) == (Requests(2000), [])
    pod.annotations[ANNOTATION] = '{"containers": {"main": {"requests": {"cpu": "2x"}}}}'
    broken = container_of(pod, main, 1000)
    assert broken.requests == Requests(500, 0, 100, 0)
    (doubt,) = broken.doubts
    assert doubt.startswith(f'annotation {ANNOTATION}: "2x" is not a quantity')


def test_pins_are_returned_only_when_they_change() -> None:
    changes = Changes()
    changes.set("a", cpus="0-3")
    changes.set("a", mems="")
    assert changes.take() == {"a": Pins("0-3", "")}
    assert changes.take() == {}
    saved = changes.saved()
    changes.set("a", cpus="5")
    changes.restore(saved)
    changes.repeat("a", shares=2)
    assert changes.take() == {"a": Pins("0-3", "", 2)}
    changes.forget("a")
    assert changes.pins == {}
