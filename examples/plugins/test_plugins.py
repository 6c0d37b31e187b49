"""Tests of the plugins beside this file: `pytest examples/plugins`."""

import pytest
from guard import Guard
from pin import Pin
from rebalance import Rebalance
from zone import Zone

import nri
from nri.testing import FakeRuntime, make_container, make_pod


class Injector(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_mount("/data", "/srv/data", "bind", ["rbind", "ro"])


def test_a_marked_pod_is_told_its_zone(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Zone())
    marked = make_pod(annotations={"zone.example.com": "a"})
    assert nri_runtime.create_container(marked).env == {"ZONE": "a"}
    assert nri_runtime.create_container(make_pod()).env == {}


def test_a_handler_is_a_method() -> None:
    answer = Pin().create_container(make_pod(namespace="realtime"), make_container())
    assert answer == nri.Adjustment().set_cpuset_cpus("2-3")
    assert Pin().create_container(make_pod(), make_container(cpus="7")) is None


def test_others_stay_off_the_pinned_cpus(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Pin(), config="{cpus: 4-7, others: 0-3}")
    assert nri_runtime.create_container(make_pod()).cpuset_cpus == "0-3"
    assert nri_runtime.create_container(make_pod(namespace="kube-system")).cpuset_cpus is None


def test_the_same_cpus_twice_are_a_mistake_of_the_configuration(nri_runtime: FakeRuntime) -> None:
    with pytest.raises(nri.ConfigError, match="are the same CPUs, 2-3"):
        nri_runtime.add(Pin(), config="others: 2-3")


def test_weights_follow_the_number_of_containers() -> None:
    pod = make_pod()
    one, two = make_container(pod=pod, id="one"), make_container(pod=pod, id="two", memory_limit=8 << 30)
    with FakeRuntime(pods=[pod], containers=[one, two], real_time=False) as runtime:
        runtime.add(Rebalance()).tick()
        assert {update.container_id: update.cpu_shares for update in runtime.updates} == {"one": 4096, "two": 4096}
        assert [eviction.container_id for eviction in runtime.evictions] == ["two"]
        reply = runtime.stop_container(pod, two)
        assert reply.updates["one"].cpu_shares == 4096


def test_only_the_injector_may_mount(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Guard(), idx="90").add(Injector(), idx="10")
    reply = nri_runtime.create_container()
    assert (reply.mounts["/data"].source, reply.owner("Mounts", "/data")) == ("/srv/data", "10-injector")
    nri_runtime.disconnect("10-injector").add(Injector(), idx="20")
    with pytest.raises(nri.ValidationRejected, match="20-injector must not mount /data"):
        nri_runtime.create_container()
