"""Every adjustment by a plugin of the proxy, read back from a real container, on each runtime behind it.

Adjustments that the CRI cannot express, by the table of `nri.proxy.adjust`, have no effect and are logged by the proxy
with the plugin's name. All others have their effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.conformance.fields import CASES, CDI_SPEC, CGROUP_PARENT, FOLDER, Case
from tests.engine.node import V2
from tests.real.plugin_process import PluginProcess
from tests.real.view import ContainerView
from tools.runtimes.proxy import Proxied

#: Cases whose field the CRI cannot say: how the log's line about it begins.
UNSAID = {
    "annotation-remove": "annotations[io.kubernetes.cri.image-name]",
    "mount-tmpfs": "mounts[/scratch]",
    "mount-remove": "mounts[/dev/mqueue]",
    "rlimit": "rlimits[RLIMIT_NOFILE]",
    "device-rule": "linux.resources.devices",
    "memory-reservation": "linux.resources.memory.reservation",
    "pids": "linux.resources.pids",
    "blockio": "linux.resources.blockio_class",
    "rdt-class": "linux.resources.rdt_class",
    "rdt": "linux.rdt.clos_id",
    "cgroups-path": "linux.cgroups_path",
    **{f"hook-{stage}": "hooks" for stage in (
        "create-runtime", "prestart", "poststart", "create-container", "start-container", "poststop")},
    "namespace-add": "linux.namespaces[cgroup]",
    "namespace-replace": "linux.namespaces[ipc]",
    "namespace-remove": "linux.namespaces[-ipc]",
    "sysctl": "linux.sysctl[kernel.shm_rmid_forced]",
    "seccomp": "linux.seccomp_policy",
    "scheduler": "linux.scheduler",
    "io-priority": "linux.io_priority",
    "net-device": "linux.net_devices[nri-none]",
    "memory-policy": "linux.memory_policy",
}  # fmt: skip
#: Cases that the CRI can express in part: the text read back, and the start of the log line about the rest.
PARTLY = {"device": ("read back '1:3 crw-rw-rw-'", "linux.devices[/dev/added]")}
#: The read-back is the OCI spec's: runtimes keep the CRI's annotations for themselves.
_OF_SPEC = "ignored"
#: What a runtime makes of a case that the CRI can say, where that is not its effect; None for every runtime.
OTHERWISE = {
    ("annotation", None): _OF_SPEC,
    ("hugepages", None): "ignored",  # this machine has none, and runtimes leave them out
    **({} if V2 else {("unified", "engine"): "ignored"}),  # on cgroup v1 it is left out with a note
    ("cdi", "engine"): "refused",  # it has no separate folder of CDI files here
}


def run_case(proxied: Proxied, folder: Path, name: str, case: Case | None) -> ContainerView:
    """A container, adjusted as in the case; unchanged without a case."""
    cri = proxied.cri
    wishes = {"test/adjust": name} if case else {}
    annotations = {**wishes, FOLDER: str(folder), CGROUP_PARENT: f"/{proxied.run_dir.name}"}
    pod = cri.run_pod(f"adjust-{name}", annotations=annotations)
    created_id = cri.create(
        pod, "main", env={"OF_POD": "old"}, annotations={"of-container": "1"}, memory_limit_in_bytes=64 << 20
    )
    started = case is None or case.start
    if started:
        cri.start(created_id)
    return ContainerView(cri, created_id, folder, shared=case is None, started=started)


@pytest.fixture(scope="module")
def plain(proxied: Proxied, plugin: PluginProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerView]:
    """The same container without any adjustment."""
    cdi = proxied.run_dir / "cdi"
    if cdi.is_dir():
        (cdi / "test.json").write_text(json.dumps(CDI_SPEC))
    yield run_case(proxied, tmp_path_factory.mktemp("plain"), "plain", None)
    proxied.cri.remove_all()


@pytest.mark.parametrize("name", CASES)
def test_an_adjustment_is_applied_or_reported(
    proxied: Proxied, runtime_name: str, plain: ContainerView, name: str, tmp_path: Path
) -> None:
    case: Any = CASES[name]
    (tmp_path / "hello").write_text("hello")
    unadjusted = case.read(plain)
    before = len(proxied.log_lines("an adjustment is left out"))
    try:
        received = case.read(run_case(proxied, tmp_path, name, case))
        outcome = (
            "ignored" if received == unadjusted else "applied" if received == case.effect else f"read back {received!r}"
        )
    except grpc.RpcError as error:
        outcome = f"refused: {error.details()}"
    lines = proxied.log_lines("an adjustment is left out")[before:]
    if name in PARTLY or name in UNSAID:
        expected, begin = PARTLY.get(name) or ("ignored", UNSAID[name])
        assert outcome == expected
        (line,) = lines
        assert f"left out: {begin} " in line, line
        assert "of plugin 10-recorder" in line or begin == "linux.resources.devices", "rules have no owner"
    else:
        expected = OTHERWISE.get((name, None)) or OTHERWISE.get((name, runtime_name), "applied")
        assert outcome.partition(":")[0] == expected, outcome
        assert lines == []
