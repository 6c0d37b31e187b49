"""Pods and containers of the CRI as plugins see them, and requests as parts of a spec."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from nri.api import messages as m
from nri.cri.convert import container, pod_sandbox
from nri.cri.convert.nri_messages import describe, namespaces, requested
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError

CONFIG = pb.ContainerConfig(
    metadata=pb.ContainerMetadata(name="app", attempt=2),
    image=pb.ImageSpec(image="sha256:1", user_specified_image="busybox:1"),
    labels={"l": "1"},
    annotations={"both": "request", "a": "1"},
    CDI_devices=[pb.CDIDevice(name="v.com/c=d")],
    log_path="app.log",
)


def converted_container(spec: dict, config: pb.ContainerConfig = CONFIG, **status: object) -> m.Container:
    return container(pb.ContainerStatus(id="c1", **status), config, spec, pod_id="p1", pid=7).value


def test_identity_image_and_times_come_from_request_and_status() -> None:
    mount_rows = converted_container(
        {"annotations": {"both": "spec", "s": "1"}},
        state=pb.CONTAINER_RUNNING,
        created_at=1,
        started_at=2,
        image_ref="busybox@sha256:2",
        image_id="sha256:3",
    )
    assert (mount_rows.id, mount_rows.pod_sandbox_id, mount_rows.name, mount_rows.pid) == ("c1", "p1", "app", 7)
    assert mount_rows.state == m.ContainerState.CONTAINER_RUNNING
    assert (mount_rows.created_at, mount_rows.started_at, mount_rows.finished_at) == (1, 2, 0)
    assert mount_rows.annotations == {"both": "request", "s": "1", "a": "1"}
    assert mount_rows.image == m.Image(name="busybox:1", digest="busybox@sha256:2", config_digest="sha256:3")
    assert [one.name for one in mount_rows.CDI_devices] == ["v.com/c=d"]


@pytest.mark.parametrize(
    ("state", "code", "reason", "expected"),
    [
        (pb.CONTAINER_EXITED, 0, "", "Completed"),
        (pb.CONTAINER_EXITED, 137, "", "Error"),
        (pb.CONTAINER_EXITED, 137, "OOMKilled", "OOMKilled"),
        (pb.CONTAINER_RUNNING, 0, "", ""),
    ],
)
def test_the_reason_of_an_exit_is_sent(state: int, code: int, reason: str, expected: str) -> None:
    mount_rows = converted_container({}, state=state, exit_code=code, reason=reason)
    assert (mount_rows.exit_code, mount_rows.status_reason) == (code, expected)


def test_all_values_of_a_spec_reach_plugins() -> None:
    mount_rows = converted_container(
        {
            "process": {
                "args": ["sh"],
                "env": ["A=1"],
                "user": {"uid": 1, "gid": 2, "additionalGids": [2, 3]},
                "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 2, "soft": 1}],
                "oomScoreAdj": -3,
                "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
                "scheduler": {"policy": "SCHED_BATCH", "nice": 5, "flags": ["SCHED_FLAG_RECLAIM"]},
            },
            "mounts": [{"destination": "/d", "type": "bind", "source": "/s", "options": ["rbind"]}],
            "hooks": {"createRuntime": [{"path": "/h", "args": ["h"], "timeout": 6}]},
            "linux": {
                "namespaces": [{"type": "network", "path": "/n"}, {"type": "mount"}],
                "devices": [{"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "fileMode": 438, "uid": 0}],
                "resources": {"cpu": {"shares": 9}},
                "cgroupsPath": "/p/c1",
                "sysctl": {"net.x": "1"},
                "netDevices": {"eth7": {"name": "eth0"}},
                "intelRdt": {"closID": "gold", "enableMonitoring": True},
                "seccomp": {
                    "defaultAction": "SCMP_ACT_ERRNO",
                    "defaultErrnoRet": 38,
                    "syscalls": [
                        {
                            "names": ["socket"],
                            "action": "SCMP_ACT_ALLOW",
                            "args": [{"index": 0, "value": 40, "op": "SCMP_CMP_NE"}],
                        }
                    ],
                },
            },
        }
    )
    linux = mount_rows.linux
    assert (list(mount_rows.args), list(mount_rows.env), list(mount_rows.user.additional_gids)) == (
        ["sh"],
        ["A=1"],
        [2, 3],
    )
    assert mount_rows.rlimits[0] == m.POSIXRlimit(type="RLIMIT_NOFILE", hard=2, soft=1)
    assert mount_rows.mounts[0] == m.Mount(destination="/d", type="bind", source="/s", options=["rbind"])
    assert (mount_rows.hooks.create_runtime[0].path, mount_rows.hooks.create_runtime[0].timeout.value) == ("/h", 6)
    assert [(one.type, one.path) for one in linux.namespaces] == [("network", "/n"), ("mount", "")]
    assert (linux.devices[0].file_mode.value, linux.devices[0].HasField("uid"), linux.devices[0].HasField("gid")) == (
        438,
        True,
        False,
    )
    assert (linux.resources.cpu.shares.value, linux.cgroups_path, linux.oom_score_adj.value) == (9, "/p/c1", -3)
    assert (dict(linux.sysctl), linux.net_devices["eth7"].name) == ({"net.x": "1"}, "eth0")
    assert (linux.rdt.clos_id.value, linux.rdt.enable_monitoring.value) == ("gold", True)
    assert (getattr(linux.io_priority, "class"), linux.io_priority.priority) == (m.IOPrioClass.IOPRIO_CLASS_BE, 4)
    assert linux.scheduler.policy == m.LinuxSchedulerPolicy.SCHED_BATCH
    assert list(linux.scheduler.flags) == [m.LinuxSchedulerFlag.SCHED_FLAG_RECLAIM]
    assert (linux.seccomp_policy.default_errno.value, linux.seccomp_policy.syscalls[0].args[0].value) == (38, 40)


def test_the_seccomp_profile_is_sent_only_if_requested() -> None:
    profile = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref="/p.json")
    config = pb.ContainerConfig()
    config.linux.security_context.seccomp.CopyFrom(profile)
    assert not converted_container({}).linux.HasField("seccomp_profile")
    mount_rows = converted_container({}, config).linux.seccomp_profile
    assert (mount_rows.profile_type, mount_rows.localhost_ref) == (m.SecurityProfile.LOCALHOST, "/p.json")


def test_an_unknown_type_of_seccomp_profile_is_an_error() -> None:
    config = pb.ContainerConfig()
    config.linux.security_context.seccomp.profile_type = 9
    with pytest.raises(RequestError, match=r"seccomp\.profile_type: 9: is unknown"):
        converted_container({}, config)


def test_fields_that_nri_lacks_are_reported() -> None:
    dropped = container(pb.ContainerStatus(), CONFIG, {}, pod_id="p1").dropped
    assert [one.field for one in dropped] == ["metadata.attempt", "log_path"]


POD_CONFIG = pb.PodSandboxConfig(
    metadata=pb.PodSandboxMetadata(name="web", uid="u1", namespace="default", attempt=1),
    labels={"l": "1"},
    annotations={"both": "request", "a": "1"},
    linux=pb.LinuxPodSandboxConfig(
        cgroup_parent="/kubepods",
        overhead=pb.LinuxContainerResources(cpu_shares=5, oom_score_adj=9),
        resources=pb.LinuxContainerResources(memory_limit_in_bytes=6),
        sysctls={"net.x": "1"},
    ),
)
STATUS = pb.PodSandboxStatus(
    id="p1",
    runtime_handler="crun",
    network=pb.PodSandboxNetworkStatus(ip="10.0.0.2", additional_ips=[pb.PodIP(ip="fd::2")]),
)


def test_all_fields_of_a_pod_are_sent() -> None:
    spec = {
        "annotations": {"both": "spec"},
        "linux": {
            "cgroupsPath": "/kubepods/p1",
            "namespaces": [{"type": "network", "path": "/run/n"}],
            "resources": {"cpu": {"shares": 2}},
        },
    }
    pod = pod_sandbox(STATUS, POD_CONFIG, spec, pid=4).value
    assert (pod.id, pod.name, pod.uid, pod.namespace, pod.pid) == ("p1", "web", "u1", "default", 4)
    assert (pod.labels, pod.annotations) == ({"l": "1"}, {"both": "spec", "a": "1"})
    assert (pod.runtime_handler, list(pod.ips)) == ("crun", ["10.0.0.2", "fd::2"])
    assert (pod.linux.cgroup_parent, pod.linux.cgroups_path) == ("/kubepods", "/kubepods/p1")
    assert (pod.linux.namespaces[0].type, pod.linux.namespaces[0].path) == ("network", "/run/n")
    assert (pod.linux.pod_overhead.cpu.shares.value, pod.linux.pod_resources.memory.limit.value) == (5, 6)
    assert pod.linux.resources.cpu.shares.value == 2


def test_a_pod_on_the_host_network_has_no_addresses() -> None:
    assert list(pod_sandbox(pb.PodSandboxStatus(id="p1"), POD_CONFIG).value.ips) == []


def test_pod_fields_that_nri_lacks_are_reported() -> None:
    dropped = pod_sandbox(STATUS, POD_CONFIG).dropped
    assert [one.field for one in dropped] == ["metadata.attempt", "linux.sysctls", "linux.overhead.oom_score_adj"]


def test_a_pod_without_overhead_and_resources_has_none_for_plugins() -> None:
    pod = pod_sandbox(pb.PodSandboxStatus(id="p1"), pb.PodSandboxConfig()).value
    assert not pod.linux.HasField("pod_overhead")
    assert not pod.linux.HasField("pod_resources")


def test_a_process_is_converted_from_the_request() -> None:
    config = pb.ContainerConfig(command=["sh"], args=["-c", "a"], envs=[pb.KeyValue(key="A", value=b"b\xff")])
    config.linux.security_context.run_as_user.value = 7
    config.linux.security_context.supplemental_groups.extend([1, -1, 2])
    config.linux.resources.oom_score_adj = -5
    process = requested(config)["process"]
    assert process["args"] == ["sh", "-c", "a"]
    assert process["env"] == ["A=b\ufffd"]
    assert process["user"] == {"uid": 7, "gid": 0, "additionalGids": [1, 2]}
    assert process["oomScoreAdj"] == -5


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ({}, ["rbind", "rprivate", "rw"]),
        ({"readonly": True}, ["rbind", "rprivate", "ro"]),
        ({"readonly": True, "recursive_read_only": True}, ["rbind", "rprivate", "rro"]),
        ({"propagation": pb.PROPAGATION_BIDIRECTIONAL}, ["rbind", "rshared", "rw"]),
    ],
)
def test_a_mount_has_the_options_that_runtimes_use(words: dict[str, object], options: list[str]) -> None:
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path="/a", host_path="/b", **words)])  # type: ignore[arg-type]
    (mount,) = requested(config)["mounts"]
    assert (mount["destination"], mount["source"], mount["options"]) == ("/a", "/b", options)


def test_only_set_resources_are_converted() -> None:
    config = pb.ContainerConfig()
    config.linux.resources.cpu_shares = 512
    config.linux.resources.cpu_period = -1
    config.linux.resources.cpu_quota = -1
    config.linux.resources.cpuset_cpus = "0-1"
    config.linux.resources.memory_limit_in_bytes = 1 << 20
    config.linux.resources.hugepage_limits.add(page_size="2MB", limit=7)
    config.linux.resources.unified["memory.low"] = "5"
    assert requested(config)["linux"]["resources"] == {
        "cpu": {"shares": 512, "quota": -1, "cpus": "0-1"},
        "memory": {"limit": 1 << 20},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 7}],
        "unified": {"memory.low": "5"},
    }


def test_an_empty_request_has_no_resources() -> None:
    assert requested(pb.ContainerConfig())["linux"]["resources"] == {}


SPEC: dict[str, Any] = {
    "process": {
        "args": ["sh"],
        "env": ["A=b"],
        "user": {"uid": 1, "gid": 2, "additionalGids": [3]},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 20, "soft": 10}],
        "oomScoreAdj": 5,
        "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
        "scheduler": {"policy": "SCHED_BATCH", "nice": 3, "flags": ["SCHED_FLAG_RESET_ON_FORK"]},
    },
    "mounts": [{"destination": "/m", "type": "bind", "source": "/s", "options": ["ro"]}],
    "hooks": {"createRuntime": [{"path": "/hook", "args": ["hook"], "timeout": 7}]},
    "linux": {
        "namespaces": [{"type": "pid"}, {"type": "network", "path": "/net"}],
        "devices": [{"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "fileMode": 438}],
        "resources": {"cpu": {"shares": 512}},
        "cgroupsPath": "/c",
        "sysctl": {"net.a": "1"},
        "netDevices": {"eth1": {"name": "e1"}, "eth2": None},
        "seccomp": {
            "defaultAction": "SCMP_ACT_ERRNO",
            "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [
                {"names": ["read"], "action": "SCMP_ACT_ALLOW", "errnoRet": 1,
                 "args": [{"index": 0, "value": 2, "op": "SCMP_CMP_EQ"}]},
            ],
        },
        "intelRdt": {"closID": "gold", "schemata": ["L3:0=f"]},
    },
}  # fmt: skip


def shown(spec: dict[str, Any]) -> dict[str, Any]:
    container_ = m.Container()
    describe(container_, spec)
    message_to_dict: dict[str, Any] = MessageToDict(container_, preserving_proto_field_name=True)
    return message_to_dict


def test_all_linux_fields_of_nri_are_converted() -> None:
    linux = shown(SPEC).pop("linux")
    assert linux == {
        "namespaces": [{"type": "pid"}, {"type": "network", "path": "/net"}],
        "devices": [{"path": "/dev/x", "type": "c", "major": "1", "minor": "3", "file_mode": {"value": 438}}],
        "resources": linux["resources"],
        "oom_score_adj": {"value": "5"},
        "cgroups_path": "/c",
        "io_priority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
        "seccomp_policy": {
            "default_action": "SCMP_ACT_ERRNO",
            "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [
                {"names": ["read"], "action": "SCMP_ACT_ALLOW", "errno_ret": {"value": 1},
                 "args": [{"value": "2", "op": "SCMP_CMP_EQ"}]},
            ],
        },
        "sysctl": {"net.a": "1"},
        "net_devices": {"eth1": {"name": "e1"}, "eth2": {}},
        "scheduler": {"policy": "SCHED_BATCH", "nice": 3, "flags": ["SCHED_FLAG_RESET_ON_FORK"]},
        "rdt": {"clos_id": {"value": "gold"}, "schemata": {"value": ["L3:0=f"]}},
    }  # fmt: skip
    assert linux["resources"]["cpu"]["shares"] == {"value": "512"}


def test_process_mounts_and_hooks_are_converted() -> None:
    container = shown(SPEC)
    del container["linux"]
    assert container == {
        "args": ["sh"],
        "env": ["A=b"],
        "mounts": [{"destination": "/m", "type": "bind", "source": "/s", "options": ["ro"]}],
        "hooks": {"create_runtime": [{"path": "/hook", "args": ["hook"], "timeout": {"value": "7"}}]},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": "20", "soft": "10"}],
        "user": {"uid": 1, "gid": 2, "additional_gids": [3]},
    }


def test_unknown_enum_words_become_0() -> None:
    odd = {"process": {"scheduler": {"policy": "SCHED_NEW"}, "ioPriority": {"class": "IOPRIO_CLASS_NEW"}}}
    linux = shown(odd)["linux"]
    assert "policy" not in linux["scheduler"]
    assert "class" not in linux["io_priority"]


def test_an_empty_spec_is_an_empty_message_and_parts_may_be_null() -> None:
    empty = shown({})
    assert shown({"process": None, "mounts": None, "hooks": None, "linux": None}) == empty
    assert namespaces({}) == []


def test_the_spec_is_not_changed() -> None:
    before = json.dumps(SPEC)
    shown(SPEC)
    assert json.dumps(SPEC) == before
