"""A container's OCI spec, as plugins are shown it."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.json_format import MessageToDict

from nri.api import messages as m
from nri.cri.convert.spec_fields import describe, namespaces

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
    made = m.Container()
    describe(made, spec)
    found: dict[str, Any] = MessageToDict(made, preserving_proto_field_name=True)
    return found


def test_everything_that_nri_has_a_field_for_is_shown() -> None:
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


def test_the_process_its_mounts_and_hooks_are_shown() -> None:
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


def test_words_that_the_api_does_not_know_become_its_0() -> None:
    odd = {"process": {"scheduler": {"policy": "SCHED_NEW"}, "ioPriority": {"class": "IOPRIO_CLASS_NEW"}}}
    linux = shown(odd)["linux"]
    assert "policy" not in linux["scheduler"]
    assert "class" not in linux["io_priority"]


def test_an_empty_spec_has_nothing_to_show_and_parts_may_be_null() -> None:
    empty = shown({})
    assert shown({"process": None, "mounts": None, "hooks": None, "linux": None}) == empty
    assert namespaces({}) == []


def test_the_spec_stays_as_it_is() -> None:
    before = json.dumps(SPEC)
    shown(SPEC)
    assert json.dumps(SPEC) == before
