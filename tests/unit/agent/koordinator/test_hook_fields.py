"""Contexts from hook requests, and changes in their responses."""

import json

from nri.agent.koordinator import batch_resource, names
from nri.agent.koordinator import hook_fields as proxy
from nri.agent.model import Changes, Device, Mount, Resctrl, Resources

SPEC = json.dumps({"containers": {"c": {"limits": {names.BATCH_CPU: "500"}}}})


FULL = Changes(
    {"cpu.shares": 2, "cpu.cfs_quota": -1, "cpuset.cpus": "0-3", "memory.limit": -1, "oom_score_adj": -500},
    resctrl=Resctrl("koordlet-u", "L3:0=f\n"),
    env={"A": "1"},
    mounts=(Mount("/d", "bind", "/s", ("rbind",)),),
    devices=(Device("/dev/x", "c", 10, 20, 0o666),),
)


REQUEST = {
    "pod_meta": {"name": "n", "namespace": "ns", "uid": "u"},
    "pod_annotations": {batch_resource.ANNOTATION_EXTENDED: SPEC},
    "pod_cgroup_parent": "/kubepods/podu",
    "container_meta": {"id": "cid", "name": "c"},
    "container_envs": {"A": ""},
    "container_resources": {"cpu_shares": 0, "cpu_quota": -1, "memory_limit_in_bytes": -9, "cpuset_cpus": "1"},
}


def test_a_hook_request_becomes_a_context() -> None:
    context = proxy.container_context(REQUEST)
    assert context.folder == "/kubepods/podu/cri-containerd-cid.scope"
    assert context.env == {"A": ""}
    assert context.resources == Resources(cfs_quota=-1, cpuset="1", memory_limit=-1)
    assert context.extended is not None
    assert proxy.container_context({}).resources is None
    pod = proxy.pod_context({"pod_meta": {"uid": "u"}, "labels": {"l": "1"}, "cgroup_parent": "p"})
    assert (pod.uid, pod.labels, pod.folder) == ("u", {"l": "1"}, "p")


def test_a_hook_response_clears_cpus_and_keeps_other_values() -> None:
    before = {"container_resources": {"cpuset_cpus": "5-6", "cpu_shares": 77}, "container_envs": {"B": "2"}}
    after = proxy.container_response(Changes({"cpuset.cpus": ""}, env={"A": "1"}), before)
    assert after == {
        "container_resources": {"cpuset_cpus": "", "cpu_shares": 77},
        "container_envs": {"B": "2", "A": "1"},
    }
    assert proxy.container_response(Changes({"cpu.bvt": 1}), before) == before
    score = proxy.container_response(Changes({"oom_score_adj": -5}), {"container_resources": {"oom_score_adj": 900}})
    assert score == {"container_resources": {"oom_score_adj": -5}}
    assert proxy.pod_response(Changes({"cpu.cfs_quota": -1}), {}) == {"resources": {"cpu_quota": -1}}
