"""What a request of the CRI says of an OCI spec by itself."""

from __future__ import annotations

import pytest

from nri.cri.convert.requested import requested
from nri.cri.pb import api_pb2 as pb


def test_a_process_is_what_the_request_says_of_it() -> None:
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
def test_a_mount_has_the_options_that_runtimes_make_of_it(words: dict[str, object], options: list[str]) -> None:
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path="/a", host_path="/b", **words)])  # type: ignore[arg-type]
    (mount,) = requested(config)["mounts"]
    assert (mount["destination"], mount["source"], mount["options"]) == ("/a", "/b", options)


def test_resources_are_those_that_are_set() -> None:
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


def test_a_request_that_says_nothing_is_no_resource() -> None:
    assert requested(pb.ContainerConfig())["linux"]["resources"] == {}
