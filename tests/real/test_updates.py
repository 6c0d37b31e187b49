"""Updates of running containers: returned by handlers, requested by the kubelet, and unsolicited."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nri.conformance.fields import SETTERS
from tests.real.conftest import Runtime
from tests.real.support_matrix import APPLIED, UPDATES
from tests.real.test_lifecycle import unique
from tools.runtimes import cgroups
from tools.runtimes.cri import Pod


def read(runtime: Runtime, container: str, setter: str) -> str:
    """The value of that setter in the container's cgroup."""
    _, controller, v1_file, v2_file, _ = SETTERS[setter]
    pid = runtime.daemon.cri.info(container)["pid"]
    text = cgroups.read(pid, controller, v1_file, v2_file).split()[0]
    # On cgroup version 2 shares are weights; which weight is up to runc, that it is not the default is enough.
    return "333" if v2_file == "cpu.weight" and not cgroups.is_v1(pid, "cpu") and text != "39" else text


def pod_with_wish(runtime: Runtime, event: str, container: str = "main", **setters: Any) -> Pod:
    """A pod in which the plugin returns an update of `container` at `event`."""
    wish = json.dumps({"on": event, "container": container, "set": setters})
    return runtime.daemon.cri.run_pod(unique("update"), annotations={"test/update": wish})


def run_main(runtime: Runtime, pod: Pod) -> str:
    """A container with limits that none of the updates repeats."""
    return runtime.daemon.cri.run(
        pod, "main", memory_limit_in_bytes=64 << 20, cpu_shares=1024, cpu_period=100_000, cpu_quota=50_000
    )


@pytest.mark.parametrize("event", ["CreateContainer", "StopContainer"])
def test_an_update_returned_for_another_container_is_applied(runtime: Runtime, event: str) -> None:
    pod = pod_with_wish(runtime, event, set_memory_limit=80 << 20)
    main = run_main(runtime, pod)
    other = runtime.daemon.cri.run(pod, "other")
    runtime.daemon.cri.stop(other)
    assert read(runtime, main, "set_memory_limit") == str(80 << 20)
    runtime.daemon.cri.remove_pod(pod.id)


def test_an_update_returned_to_update_container_replaces_the_request(runtime: Runtime) -> None:
    pod = pod_with_wish(runtime, "UpdateContainer", set_memory_limit=80 << 20)
    main = run_main(runtime, pod)
    runtime.daemon.cri.update(main, memory_limit_in_bytes=96 << 20)
    assert read(runtime, main, "set_memory_limit") == str(80 << 20)
    runtime.daemon.cri.remove_pod(pod.id)


def test_an_update_by_the_kubelet_reaches_the_plugin_and_is_applied(runtime: Runtime) -> None:
    pod = runtime.daemon.cri.run_pod(unique("kubelet"))
    main = run_main(runtime, pod)
    runtime.daemon.cri.update(main, cpu_shares=333)
    assert runtime.plugin.wait_for("UpdateContainer", id=main)["shares"] == "333" or (
        runtime.plugin.wait_for("UpdateContainer", id=main)["shares"] == 333
    )
    runtime.plugin.wait_for("PostUpdateContainer", id=main)
    assert read(runtime, main, "set_cpu_shares") == "333"
    runtime.daemon.cri.remove_pod(pod.id)


@pytest.mark.parametrize("setter", SETTERS)
def test_an_unsolicited_update_has_the_documented_effect(runtime: Runtime, setter: str) -> None:
    value, *_, text = SETTERS[setter]
    pod = runtime.daemon.cri.run_pod(unique("unsolicited"))
    main = run_main(runtime, pod)
    count = len(runtime.plugin.lines("Updated"))
    runtime.plugin.send({"container": main, "set": {setter: value}})
    answer = runtime.plugin.wait_for("Updated", count=count + 1)
    assert (answer["failed"], answer["error"]) == ([], "")
    applied = read(runtime, main, setter) == text
    assert applied == (UPDATES[setter][runtime.key] == APPLIED), f"{setter} on containerd {runtime.key}"
    runtime.daemon.cri.remove_pod(pod.id)


def test_an_unsolicited_update_of_an_unknown_container_is_ignored(runtime: Runtime) -> None:
    count = len(runtime.plugin.lines("Updated"))
    runtime.plugin.send({"container": "0" * 64, "set": {"set_cpu_shares": 100}})
    answer = runtime.plugin.wait_for("Updated", count=count + 1)
    assert (answer["failed"], answer["error"]) == ([], "")


def test_an_update_returned_to_synchronize_is_applied(runtime: Runtime, plug: Any) -> None:
    pod = pod_with_wish(runtime, "Synchronize", set_memory_limit=80 << 20)
    main = run_main(runtime, pod)
    plug(runtime.daemon, idx="40")
    # The runtime applies it after the plugin has answered: the next event waits for that.
    runtime.daemon.cri.remove_pod(runtime.daemon.cri.run_pod(unique("barrier")).id)
    assert read(runtime, main, "set_memory_limit") == str(80 << 20)
    runtime.daemon.cri.remove_pod(pod.id)
