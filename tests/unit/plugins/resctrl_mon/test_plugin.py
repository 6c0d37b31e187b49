"""`resctrl-mon` on a file tree like resctrl: groups of pods, processes and log lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.api.messages import ContainerState
from nri.plugins.resctrl_mon.plugin import ResctrlMon, group_of
from nri.testing import FakeRuntime, make_container, make_pod

UID = "0a1b2c3d-0000-4000-8000-00000000000f"
OTHER = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def resctrl(tmp_path: Path) -> Path:
    for folder in ("mon_groups", "info", "mon_data", "gold/mon_groups"):
        (tmp_path / "resctrl" / folder).mkdir(parents=True)
    (tmp_path / "resctrl" / "schemata").write_text("L3:0=ff\n")
    return tmp_path / "resctrl"


def attach(runtime: FakeRuntime, resctrl: Path, **config: Any) -> ResctrlMon:
    plugin = ResctrlMon()
    runtime.add(plugin, idx="10", config=json.dumps({"resctrlPath": str(resctrl), **config}))
    return plugin


def pod(uid: str = UID, **fields: Any) -> Any:
    return make_pod("pod", uid=uid, id="pod-1", **fields)


def container(**fields: Any) -> Any:
    return make_container("app", id="ctr-1", pod_sandbox_id="pod-1", **fields)


def with_tasks(group: Path) -> Path:
    """The file that the kernel would make in a new group."""
    (group / "tasks").touch()
    return group / "tasks"


def test_a_pod_has_a_group_from_its_first_container_to_its_removal(nri_runtime: FakeRuntime, resctrl: Path) -> None:
    attach(nri_runtime, resctrl)
    nri_runtime.post_create_container(pod(), container(pid=77))
    tasks = with_tasks(resctrl / "mon_groups" / UID)
    nri_runtime.start_container(pod(), container(pid=77))
    assert tasks.read_text() == "77"
    nri_runtime.stop_container(pod(), container(pid=77))
    assert tasks.exists()
    tasks.unlink()  # the kernel's files go with the folder
    nri_runtime.remove_pod_sandbox(pod())
    assert not tasks.parent.exists()


def test_a_container_of_a_class_is_counted_in_its_group(nri_runtime: FakeRuntime, resctrl: Path) -> None:
    attach(nri_runtime, resctrl)
    message = container(pid=5)
    message.linux.resources.rdt_class.value = "gold"
    nri_runtime.post_create_container(pod(), message)
    tasks = with_tasks(resctrl / "gold" / "mon_groups" / UID)
    nri_runtime.post_start_container(pod(), message)
    assert tasks.read_text() == "5" and not (resctrl / "mon_groups" / UID).exists()


@pytest.mark.parametrize(
    ("config", "fields", "monitored"),
    [
        ({"namespaces": ["batch"]}, {"namespace": "batch"}, True),
        ({"namespaces": ["batch"]}, {"namespace": "default"}, False),
        ({"labelSelector": {"app": "db"}}, {"labels": {"app": "db", "x": "y"}}, True),
        ({"labelSelector": {"app": "db"}}, {"labels": {"app": "web"}}, False),
        ({"labelSelector": {"app": "db"}}, {}, False),
    ],
)
def test_pods_are_selected_by_namespace_and_labels(
    nri_runtime: FakeRuntime, resctrl: Path, config: dict[str, Any], fields: dict[str, Any], monitored: bool
) -> None:
    attach(nri_runtime, resctrl, **config)
    nri_runtime.post_create_container(pod(**fields), container())
    nri_runtime.start_container(pod(**fields), container(pid=1))
    assert (resctrl / "mon_groups" / UID).exists() is monitored


def test_a_starting_plugin_creates_groups_of_pods_and_removes_orphans(resctrl: Path) -> None:
    (resctrl / "mon_groups" / OTHER).mkdir()
    (resctrl / "gold" / "mon_groups" / UID).mkdir()  # of another class than its container has now
    (resctrl / "mon_groups" / "somebody's").mkdir()
    (resctrl / "mon_groups" / UID).mkdir()
    tasks = with_tasks(resctrl / "mon_groups" / UID)
    lost = make_container("lost", id="ctr-2", pod_sandbox_id="gone")
    with FakeRuntime(pods=[pod()], containers=[container(pid=9), lost]) as runtime:
        ResctrlMon().remove_orphans()  # before it knows what runs it removes nothing
        attach(runtime, resctrl)
        runtime.tick()
        assert tasks.read_text() == "9"
        assert not (resctrl / "gold" / "mon_groups" / UID).exists()
        assert sorted(path.name for path in (resctrl / "mon_groups").iterdir()) == [UID, "somebody's"]


def test_the_group_of_a_pod_removed_during_a_disconnect_is_removed(resctrl: Path) -> None:
    plugin = ResctrlMon()
    with FakeRuntime(pods=[pod()], containers=[container(pid=9)]) as runtime:
        runtime.add(plugin, idx="10", config=json.dumps({"resctrlPath": str(resctrl)}))
        assert (resctrl / "mon_groups" / UID).exists()
    with FakeRuntime() as runtime:
        runtime.add(plugin, idx="10", config=json.dumps({"resctrlPath": str(resctrl)}))
        runtime.tick()
        assert not (resctrl / "mon_groups" / UID).exists()


def test_the_process_of_a_stopped_container_is_not_added(resctrl: Path) -> None:
    (resctrl / "mon_groups" / UID).mkdir()
    tasks = with_tasks(resctrl / "mon_groups" / UID)
    ended = make_container("old", id="ctr-0", pod_sandbox_id="pod-1", pid=8, state=ContainerState.CONTAINER_STOPPED)
    with FakeRuntime(pods=[pod()], containers=[container(pid=9), ended]) as runtime:
        attach(runtime, resctrl)
        assert tasks.read_text() == "9"


@pytest.mark.parametrize(
    ("uid", "group", "message"),
    [
        ("../../etc", "", 'uid "../../etc" is not a UUID'),
        (UID, "silver", f"monitoring group of {UID}: the group does not exist"),
        (UID, "../x", "cannot be the name of a group"),
    ],
)
def test_a_container_that_cannot_be_monitored_is_logged_and_runs(
    nri_runtime: FakeRuntime, resctrl: Path, caplog: pytest.LogCaptureFixture, uid: str, group: str, message: str
) -> None:
    attach(nri_runtime, resctrl)
    container_message = container()
    container_message.linux.resources.rdt_class.value = group
    nri_runtime.post_create_container(pod(uid), container_message)
    nri_runtime.post_start_container(pod(uid), container_message)
    nri_runtime.remove_pod_sandbox(pod(uid))
    assert message in caplog.text and "the runtime sends no process id" in caplog.text


def test_without_resctrl_the_start_logs_a_warning(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    attach(nri_runtime, tmp_path)
    assert f"{tmp_path} has no mon_groups, so no pod is monitored" in caplog.text
    nri_runtime.post_create_container(pod(), container())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("version", "refused"), [("1.35.9", True), ("v1.36.0-dev", False), ("2.0", False), ("x", True)]
)
def test_a_cri_o_without_process_ids_is_refused(resctrl: Path, version: str, refused: bool) -> None:
    with FakeRuntime(name="cri-o", version=version) as runtime:
        if not refused:
            attach(runtime, resctrl)
            return
        with pytest.raises(nri.NriError, match="sends no process ids to plugins"):
            attach(runtime, resctrl)


def test_a_path_that_is_not_absolute_is_refused(nri_runtime: FakeRuntime) -> None:
    with pytest.raises(nri.NriError, match='resctrlPath must be an absolute path, not "resctrl"'):
        attach(nri_runtime, Path("resctrl"))


def test_uids_are_normalized() -> None:
    assert group_of(UID.upper()) == group_of(UID.replace("-", "")) == UID
    assert group_of("") == group_of(UID + "0") == ""
