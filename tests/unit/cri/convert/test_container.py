from __future__ import annotations

import pytest

from nri.api import messages as m
from nri.cri.convert import container
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


def made(spec: dict, config: pb.ContainerConfig = CONFIG, **status: object) -> m.Container:
    return container(pb.ContainerStatus(id="c1", **status), config, spec, pod_id="p1", pid=7).value


def test_identity_image_and_times_come_from_request_and_status() -> None:
    found = made(
        {"annotations": {"both": "spec", "s": "1"}},
        state=pb.CONTAINER_RUNNING,
        created_at=1,
        started_at=2,
        image_ref="busybox@sha256:2",
        image_id="sha256:3",
    )
    assert (found.id, found.pod_sandbox_id, found.name, found.pid) == ("c1", "p1", "app", 7)
    assert found.state == m.ContainerState.CONTAINER_RUNNING
    assert (found.created_at, found.started_at, found.finished_at) == (1, 2, 0)
    assert found.annotations == {"both": "request", "s": "1", "a": "1"}
    assert found.image == m.Image(name="busybox:1", digest="busybox@sha256:2", config_digest="sha256:3")
    assert [one.name for one in found.CDI_devices] == ["v.com/c=d"]


@pytest.mark.parametrize(
    ("state", "code", "reason", "expected"),
    [
        (pb.CONTAINER_EXITED, 0, "", "Completed"),
        (pb.CONTAINER_EXITED, 137, "", "Error"),
        (pb.CONTAINER_EXITED, 137, "OOMKilled", "OOMKilled"),
        (pb.CONTAINER_RUNNING, 0, "", ""),
    ],
)
def test_the_reason_of_an_end_is_told(state: int, code: int, reason: str, expected: str) -> None:
    found = made({}, state=state, exit_code=code, reason=reason)
    assert (found.exit_code, found.status_reason) == (code, expected)


def test_all_that_a_spec_says_reaches_plugins() -> None:
    found = made(
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
    linux = found.linux
    assert (list(found.args), list(found.env), list(found.user.additional_gids)) == (["sh"], ["A=1"], [2, 3])
    assert found.rlimits[0] == m.POSIXRlimit(type="RLIMIT_NOFILE", hard=2, soft=1)
    assert found.mounts[0] == m.Mount(destination="/d", type="bind", source="/s", options=["rbind"])
    assert (found.hooks.create_runtime[0].path, found.hooks.create_runtime[0].timeout.value) == ("/h", 6)
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


def test_the_seccomp_profile_is_there_only_if_one_was_asked_for() -> None:
    profile = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref="/p.json")
    config = pb.ContainerConfig()
    config.linux.security_context.seccomp.CopyFrom(profile)
    assert not made({}).linux.HasField("seccomp_profile")
    found = made({}, config).linux.seccomp_profile
    assert (found.profile_type, found.localhost_ref) == (m.SecurityProfile.LOCALHOST, "/p.json")


def test_a_kind_of_seccomp_profile_from_the_future_is_an_error() -> None:
    config = pb.ContainerConfig()
    config.linux.security_context.seccomp.profile_type = 9
    with pytest.raises(RequestError, match=r"seccomp\.profile_type: 9: is not known"):
        made({}, config)


def test_what_plugins_cannot_be_told_is_named() -> None:
    dropped = container(pb.ContainerStatus(), CONFIG, {}, pod_id="p1").dropped
    assert [one.field for one in dropped] == ["metadata.attempt", "log_path"]
