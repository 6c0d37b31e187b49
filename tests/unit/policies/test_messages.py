"""Contexts from NRI's messages, and changes in its words."""

import json

from nri.api import messages as m
from nri.policies import messages
from nri.policies.changes import Changes, Device, Mount, Resctrl
from nri.policies.contexts import Resources
from nri.policies.koordinator import names
from nri.policies.writes import Write

SPEC = json.dumps({"containers": {"c": {"limits": {names.BATCH_CPU: "500"}}}})


FULL = Changes(
    cpu_shares=2,
    cfs_quota=-1,
    cpuset="0-3",
    memory_limit=-1,
    resctrl=Resctrl("koordlet-u", "L3:0=f\n"),
    oom_score_adj=-500,
    env={"A": "1"},
    mounts=(Mount("/d", "bind", "/s", ("rbind",)),),
    devices=(Device("/dev/x", "c", 10, 20, 0o666),),
)


def nri_container(**resources: int) -> m.Container:
    container = m.Container(id="cid", name="c", env=["A=1", "B=", "=x", "C", "D=e=f"])
    container.linux.resources.cpu.shares.value = resources.get("shares", 0)
    container.linux.resources.cpu.quota.value = resources.get("quota", 0)
    container.linux.resources.memory.limit.value = resources.get("memory", 0)
    return container


def nri_pod() -> m.PodSandbox:
    pod = m.PodSandbox(
        namespace="ns", name="n", uid="u", labels={"l": "1"}, annotations={names.ANNOTATION_EXTENDED: SPEC}
    )
    pod.linux.cgroup_parent = "/kubepods/podu"
    return pod


def container(name: str, cpu: str = "", limit: str = "", **more: str) -> dict[str, object]:
    requests = {"requests": {"cpu": cpu}} if cpu else {}
    limits = {"limits": {"cpu": limit, "memory": "1Gi"}} if limit else {}
    return {"name": name, "resources": {**requests, **limits}, **more}


def test_an_nri_container_becomes_a_context() -> None:
    context = messages.container_context(nri_pod(), nri_container(shares=512, quota=-1, memory=-7))
    assert (context.id, context.cgroup_parent) == ("containerd://cid", "/kubepods/podu/cri-containerd-cid.scope")
    assert context.env == {"A": "1", "D": "e=f"}
    assert context.resources == Resources(cpu_shares=512, cfs_quota=-1, memory_limit=-1)
    assert (context.pod.namespace, context.pod.labels) == ("ns", {"l": "1"})
    assert context.pod.resources is None


def test_zero_is_not_set_and_no_linux_part_is_no_resources() -> None:
    assert messages.container_context(nri_pod(), nri_container()).resources == Resources()
    assert messages.container_context(nri_pod(), m.Container(id="c")).resources is None
    assert messages.container_context(m.PodSandbox(), m.Container(id="c")).cgroup_parent == "cri-containerd-c.scope"


def test_drivers_and_runtimes_have_their_folders() -> None:
    crio = messages.container_context(nri_pod(), m.Container(id="c"), "cri-o")
    assert crio.cgroup_parent == "/kubepods/podu/crio-c.scope"
    plain = messages.container_context(nri_pod(), m.Container(id="c"), driver="cgroupfs")
    assert plain.cgroup_parent == "/kubepods/podu/c"
    assert messages.container_id("c", {"io.kubernetes.docker.type": "container"}) == "docker://c"


def test_a_batch_annotation_that_cannot_be_read_is_as_good_as_none() -> None:
    pod = nri_pod()
    pod.annotations[names.ANNOTATION_EXTENDED] = "not-json"
    assert messages.container_context(pod, nri_container()).extended is None


def test_an_adjustment_has_all_that_nri_can_say() -> None:
    message = messages.adjustment(FULL)
    cpu = message.linux.resources.cpu
    assert (cpu.shares.value, cpu.quota.value, cpu.cpus) == (2, -1, "0-3")
    assert message.linux.resources.memory.limit.value == -1
    assert message.linux.resources.rdt_class.value == "koordlet-u"
    assert message.linux.oom_score_adj.value == -500
    assert [(each.key, each.value) for each in message.env] == [("A", "1")]
    assert message.mounts[0] == m.Mount(destination="/d", type="bind", source="/s", options=["rbind"])
    assert message.linux.devices[0].file_mode.value == 0o666
    assert messages.adjustment(Changes()) == m.ContainerAdjustment()


def test_an_update_names_its_container_and_has_no_rdt_class() -> None:
    message = messages.update(FULL, "cid")
    assert message is not None
    assert (message.container_id, message.linux.resources.cpu.quota.value) == ("cid", -1)
    assert not message.linux.resources.HasField("rdt_class")
    assert messages.update(Changes(env={"A": "1"}), "cid") is None
    asked = messages.update(FULL, "cid", rdt_class=True)
    assert asked is not None and asked.linux.resources.rdt_class.value == "koordlet-u"


def test_a_clear_that_nri_cannot_say_goes_to_the_executor() -> None:
    clear = Changes(cpuset="")
    assert messages.adjustment(clear) == m.ContainerAdjustment()
    assert messages.unsaid("kubepods/podu/c", clear) == [
        Write("kubepods/podu/c", "cpuset.cpus", "", "an explicit clear, which NRI cannot say")
    ]
    assert messages.unsaid("kubepods/podu/c", Changes(cpuset="0")) == []
    assert messages.unsaid("", clear) == []
