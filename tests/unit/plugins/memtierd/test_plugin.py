"""`memtierd`: a process for each container of a class, from its start to its stop, and over a restart of the plugin.

The tests use a stand-in for memtierd, which is not installed on the test machines. tests/conformance has the answers to
CreateContainer.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.api.messages import ContainerState, LinuxContainer
from nri.host import Root, process
from nri.host.cgroups import Hierarchies
from nri.plugins.memtierd import daemon
from nri.plugins.memtierd import plugin as memtierd
from nri.plugins.memtierd.plugin import Memtierd
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.waiting import wait_for

#: Says what it was started with, and stays: stopped, for a child of a shell has the shell's command line for a moment.
STAYS = '#!/bin/sh\necho started "$@"\nwhile :; do kill -STOP $$; done\n'
TEMPLATE = "cgroups: [$CGROUP2_ABS_PATH]\nstats: $MEMTIERD_SWAP_STATS_PATH\n"
CLASSES = [{"name": "track", "allowswap": False, "memtierdconfig": TEMPLATE}, {"name": "plain"}]
POD = {"class.memtierd.nri.io": "track"}


class Node:
    """A folder of cgroups, a program in PATH, and a runtime with one running container."""

    def __init__(self, folder: Path, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.runtime = folder, runtime
        (folder / "bin").mkdir()
        self.program = folder / "bin" / "memtierd"
        self.program.write_text(STAYS)
        self.program.chmod(0o755)
        for name in ("ctr-1", "ctr-2"):
            (folder / "cgroup" / "kubepods" / name).mkdir(parents=True)
        monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        self.pod = make_pod("pod", id="pod-1", annotations=POD)
        self.mine = folder / "run" / "default" / "pod" / "app"

    def container(self, **fields: Any) -> Any:
        return make_container("app", id="ctr-1", pod_sandbox_id="pod-1", **fields)

    def running(self) -> Any:
        return self.container(state=ContainerState.CONTAINER_RUNNING)

    def attach(self, **config: Any) -> Memtierd:
        keys = {"classes": CLASSES, "cgroupsDir": str(self.folder / "cgroup"), "runDir": str(self.folder / "run")}
        plugin = Memtierd()
        self.runtime.add(plugin, idx="10", config=json.dumps({**keys, **config}))
        return plugin

    @property
    def pid(self) -> int:
        return int((self.mine / "memtierd.pid").read_text())

    def runs(self, pid: int) -> bool:
        stat = process.read_stat(Root(), pid)
        return stat is not None and stat.state != "Z"


@pytest.fixture
def node(tmp_path: Path, nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch):
    node = Node(tmp_path, nri_runtime, monkeypatch)
    yield node
    for file in tmp_path.glob("run/*/*/*/memtierd.pid"):
        with suppress(ProcessLookupError, IsADirectoryError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def test_a_container_of_a_class_has_a_process_until_it_stops(node: Node) -> None:
    node.attach()
    node.runtime.create_container(node.pod, node.container())
    assert not node.mine.exists()
    node.runtime.start_container(node.pod, node.container())
    text = (node.mine / "memtierd.config.yaml").read_text()
    assert text == f"cgroups: [{node.folder}/cgroup/kubepods/ctr-1]\nstats: {node.mine}/memtierd.stats\n"
    wait_for(lambda: f"-config {node.mine}/memtierd.config.yaml" in (node.mine / "memtierd.output").read_text())
    pid = node.pid
    assert node.runs(pid)
    assert {path.stat().st_mode & 0o777 for path in (node.mine, node.mine.parent, node.mine.parent.parent)} == {0o700}
    node.runtime.stop_container(node.pod, node.container())
    assert not node.runs(pid) and list((node.folder / "run").iterdir()) == []


def test_foreign_folders_in_the_run_dir_are_unchanged(node: Node) -> None:
    foreign = node.folder / "run/systemd/journal/socket"
    foreign.mkdir(parents=True)
    (foreign / "file").touch()
    (node.folder / "run/default").mkdir()
    (node.folder / "run/default").chmod(0o755)
    node.runtime.start_container(node.pod, node.running())
    node.attach()
    assert (node.mine / "memtierd.config.yaml").exists() and (foreign / "file").exists()
    assert (node.folder / "run/default").stat().st_mode & 0o777 == 0o755


def test_the_end_of_an_old_container_does_not_end_its_successors_process(node: Node) -> None:
    node.attach()
    node.runtime.start_container(node.pod, node.container())
    first = node.pid
    container = make_container("app", id="ctr-2", pod_sandbox_id="pod-1")
    node.runtime.start_container(node.pod, container)
    second = node.pid
    wait_for(lambda: not node.runs(first), "the end of the first process")
    node.runtime.remove_container(node.pod, node.container())  # a kubelet does so when it likes
    assert node.runs(second) and node.mine.exists()
    node.runtime.stop_container(node.pod, container)
    assert not node.runs(second) and not node.mine.exists()


def test_a_process_whose_pid_cannot_be_written_is_ended(node: Node) -> None:
    node.attach()
    in_the_way = node.mine / "memtierd.pid" / "in the way"
    in_the_way.mkdir(parents=True)
    with pytest.raises(nri.PluginRejected, match="cannot start memtierd"):
        node.runtime.start_container(node.pod, node.container())
    words = f"-config\0{node.mine}/memtierd.config.yaml".encode()
    remaining = [path for path in Path("/proc").glob("[0-9]*/cmdline") if words in _content(path)]
    assert remaining == []


def test_a_missing_cgroup_folder_is_logged_and_the_plugin_still_connects(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeRuntime(pods=[node.pod], containers=[node.running()]) as runtime:
        node.runtime = runtime
        node.attach(cgroupsDir="/nowhere")
        wait_for(lambda: "cannot search the container's cgroup" in caplog.text)
        with pytest.raises(nri.PluginRejected, match=r"'/nowhere'; check --cgroups-dir"):
            runtime.start_container(node.pod, node.container())


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_starting_plugin_adopts_processes_and_ends_orphans(node: Node) -> None:
    node.attach()
    node.runtime.start_container(node.pod, node.container())
    first = node.pid
    stray = make_container("stray", id="ctr-2", pod_sandbox_id="pod-1")
    node.runtime.start_container(node.pod, stray)
    other = int((node.mine.parent / "stray" / "memtierd.pid").read_text())
    with FakeRuntime(pods=[node.pod], containers=[node.running()]) as runtime:
        node.runtime = runtime
        node.attach()
        wait_for(lambda: not node.runs(other), "the end of the process of a container that is gone")
        assert node.pid == first and node.runs(first)
        runtime.stop_container(node.pod, node.running())
        wait_for(lambda: not node.runs(first), "the end of the process with its container")
        assert not (node.folder / "run" / "default").exists()


def test_a_running_container_gets_its_process_when_the_plugin_starts(node: Node) -> None:
    with FakeRuntime(pods=[node.pod], containers=[node.running()]) as runtime:
        node.runtime = runtime
        node.attach()
        assert node.runs(node.pid)


def test_a_process_with_a_changed_configuration_is_restarted(node: Node) -> None:
    node.attach()
    node.runtime.start_container(node.pod, node.container())
    first = node.pid
    classes = [{"name": "track", "memtierdconfig": "other"}]
    with FakeRuntime(pods=[node.pod], containers=[node.running()]) as runtime:
        node.runtime = runtime
        node.attach(classes=classes)
        wait_for(lambda: not node.runs(first), "the end of the process with the old configuration")
        assert node.runs(node.pid) and (node.mine / "memtierd.config.yaml").read_text() == "other"


def test_a_process_that_exits_is_logged_once_with_its_last_line(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.program.write_text("#!/bin/sh\necho no tracker of that name\n")
    plugin = node.attach()
    node.runtime.start_container(node.pod, node.container())
    wait_for(lambda: not node.runs(node.pid), "its end")

    def report_count() -> int:
        plugin.check_daemons()
        return caplog.text.count("memtierd of default/pod/app has ended: no tracker of that name")

    wait_for(report_count)
    assert report_count() == 1
    node.runtime.remove_container(node.pod, node.container())
    assert not node.mine.exists()


@pytest.mark.parametrize(
    ("annotation", "fields", "message"),
    [
        ("gold", {}, 'class "gold" not found; existing classes: track, plain'),
        ("track", {"id": "ctr-9"}, "no cgroup below .* has the id of container app"),
        ("track", {"name": ".."}, "'..' is not the name of a folder"),
        ("track", {"name": "a/b"}, "'a/b' is not the name of a folder"),
    ],
)
def test_a_container_whose_process_fails_does_not_start(
    node: Node, annotation: str, fields: dict[str, Any], message: str
) -> None:
    node.attach()
    pod = make_pod("pod", id="pod-1", annotations={"class.memtierd.nri.io": annotation})
    container = make_container(**{"name": "app", "id": "ctr-1", "pod_sandbox_id": "pod-1", **fields})
    with pytest.raises(nri.NriError, match=message):
        node.runtime.start_container(pod, container)


def test_a_link_in_place_of_a_folder_is_not_followed(node: Node) -> None:
    node.attach()
    (node.folder / "run" / "default").mkdir(parents=True)
    (node.folder / "run" / "default" / "pod").symlink_to(node.folder)
    with pytest.raises(nri.NriError, match="not a folder, or a link"):
        node.runtime.start_container(node.pod, node.container())
    assert not (node.folder / "app").exists()


def test_without_the_program_the_plugin_warns_and_refuses_starts(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.program.unlink()
    node.attach()
    assert "program memtierd not found in PATH" in caplog.text
    with pytest.raises(nri.NriError, match="program memtierd not found in PATH"):
        node.runtime.start_container(node.pod, node.container())


def test_a_class_without_a_configuration_has_no_process(node: Node) -> None:
    node.attach()
    pod = make_pod("pod", id="pod-1", annotations={"class.memtierd.nri.io/app": "plain"})
    node.runtime.start_container(pod, node.container())
    assert not node.mine.exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"classes": [{"name": "a"}, {"name": "a"}]}, 'classes: duplicate name "a"'),
        ({"classes": [{"name": ""}]}, r"classes\[0\]: the name of a class must not be empty"),
        ({"classes": [{"name": "a", "allowswap": "yes"}]}, "expected true or false"),
    ],
)
def test_an_invalid_configuration_is_an_error_with_its_key(node: Node, config: dict[str, Any], message: str) -> None:
    with pytest.raises(nri.NriError, match=message):
        node.attach(**config)


def test_unknown_annotations_are_logged_at_creation(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.attach()

    def requested_unified(**annotations: str) -> Any:
        document = {f"{key.replace('_', '.')}.memtierd.nri.io": text for key, text in annotations.items()}
        pod = make_pod("pod", id=str(len(document)) + str(annotations), annotations=document)
        return node.runtime.create_container(pod, make_container("app")).unified

    assert requested_unified(**{"class": "track"}) == {"memory.swap.max": "0"}
    assert requested_unified(memory_swap_max="7", memory_high="max", **{"class": "track"}) == {
        "memory.swap.max": "7", "memory.high": "max"
    }  # fmt: skip
    assert requested_unified(memory_low="1", **{"class": "plain"}) == {}
    assert 'unknown annotation "memory.low.memtierd.nri.io"' in caplog.text
    with pytest.raises(nri.PluginRejected, match='class "gold" not found'):
        requested_unified(**{"class": "gold"})


def test_the_cgroup_is_found_from_the_runtimes_path(node: Node) -> None:
    (node.folder / "cgroup/kubepods.slice/kubepods-x.slice/cri-ctr-1.scope").mkdir(parents=True)
    node.attach()
    node.runtime.start_container(node.pod, node.container(linux=placed("kubepods-x.slice:cri:ctr-1")))
    assert "kubepods-x.slice/cri-ctr-1.scope]" in (node.mine / "memtierd.config.yaml").read_text()
    node.runtime.start_container(node.pod, node.container(linux=placed("a:b")))
    node.runtime.stop_container(node.pod, node.container())


def placed(path: str) -> Any:
    return LinuxContainer(cgroups_path=path)


def test_a_running_container_whose_process_fails_is_logged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.program.unlink()
    with FakeRuntime(pods=[node.pod], containers=[node.running()]) as runtime:
        node.runtime = runtime
        node.attach()
    assert "container default/pod/app: program memtierd not found in PATH" in caplog.text


def test_a_folder_that_cannot_be_removed_is_logged(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.attach()
    node.runtime.start_container(node.pod, node.container())

    def refuse(path: str) -> None:
        raise OSError(16, "busy", path)

    monkeypatch.setattr(daemon, "remove_tree", refuse)
    node.runtime.stop_container(node.pod, node.container())
    assert "the folder of memtierd cannot be removed: " in caplog.text


def test_without_cgroup_v2_the_plugin_does_not_start(nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memtierd, "detect", lambda _: Hierarchies(Root("/"), ()))
    with pytest.raises(nri.NriError, match=r"cgroupsDir: cgroup v2 is not mounted \(specify its mount with --cgr"):
        nri_runtime.add(Memtierd(), idx="10")
