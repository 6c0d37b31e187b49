"""`nri replay`: a recording run again with plugins of the command line."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import nri as package
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace import blocks
from nri.trace.pb import api_pb2 as t
from nri.trace.recorder import Recorder
from nri.wire import bytes_field
from tests.support.odd_blocks import odd_block

PLUGIN = """
import nri

class Sets(nri.Plugin):
    def create_container(self, pod, container):
        return nri.Adjustment().add_env("LEVEL", {value!r})
"""


class Sets(package.Plugin):
    """Sets one variable."""

    def create_container(self, pod: package.PodSandbox, container: package.Container) -> package.Adjustment:
        return package.Adjustment().add_env("LEVEL", "o\x1bld")


class Looks(package.Plugin):
    """Changes nothing."""

    def create_container(self, pod: package.PodSandbox, container: package.Container) -> None: ...


def record(folder: Path, *, redact: bool) -> Path:
    with Recorder(folder, redact=redact) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        pod, container = make_pod(name="web", namespace="shop"), make_container(name="main")
        runtime.add(Sets(), "10").create_container(pod, container)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("traces"), redact=False)


def plugin(folder: Path, value: str) -> str:
    """The command line's word for a plugin that sets this value."""
    path = folder / "plugin.py"
    path.write_text(PLUGIN.format(value=value))
    return f"10={path}"


def test_the_same_plugin_exits_with_0(nri, folder: Path, tmp_path: Path) -> None:
    result = nri("replay", str(folder), "--plugin", plugin(tmp_path, "o\x1bld"))
    assert (result.returncode, result.stdout) == (0, "1 event run again: 1 the same, 0 different\n"), result.stderr


def test_a_changed_plugin_exits_with_5_and_every_difference(nri, folder: Path, tmp_path: Path) -> None:
    result = nri("replay", str(folder), "--plugin", plugin(tmp_path, "new"))
    assert (result.returncode, result.stdout.splitlines()) == (
        5,
        [
            "CreateContainer shop/web/main",
            '  Env LEVEL: recorded "o\\x1bld"; now "new"',
            "1 event run again: 0 the same, 1 different",
        ],
    )


def test_json_has_a_line_for_each_event(nri, folder: Path, tmp_path: Path) -> None:
    result = nri("replay", str(folder), "--plugin", plugin(tmp_path, "new"), "-o", "json")
    (event,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (event["event"], event["pod"], event["container"], event["left_out"]) == (
        "CreateContainer",
        "web",
        "main",
        "",
    )
    assert [line.partition(":")[0] for line in event["differences"]] == ["Env LEVEL"]
    assert "1 event run again: 0 the same, 1 different" in result.stderr


def test_without_a_plugin_the_recorded_plugins_are_named(nri, folder: Path) -> None:
    result = nri("replay", str(folder))
    assert result.returncode == 2
    assert "a plugin is required: --plugin NN=PLUGIN. The recording has 10-sets" in result.stderr


def test_without_a_plugin_self_recorded_plugins_are_named_in_order(nri, tmp_path: Path) -> None:
    with Recorder(tmp_path, redact=False, about={"command": "nri run"}) as recorder:
        for serial, label in enumerate(("20-mem", "10-level", "99-nri-record-4711", "99-nri-drift"), 1):
            recorder.event_begins("RunPodSandbox", serial, b"")
            recorder.plugin_asked(label, "RunPodSandbox", serial, b"")
            recorder.event_ends("RunPodSandbox", serial, b"", None, 0.1)
    assert nri("replay", str(tmp_path)).stderr.splitlines()[-1].endswith("The recording has 10-level, 20-mem")


def test_hostile_names_of_a_recording_are_escaped(nri, tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.plugin_changed("10-a\nerror: \x1b[31mforged", "active", {})
    result = nri("replay", str(tmp_path))
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1), result.stderr
    assert result.stderr.endswith("The recording has 10-a\\nerror: \\x1b[31mforged\n")


def test_a_recording_without_events_is_an_error(nri, tmp_path: Path) -> None:
    with Recorder(tmp_path / "traces"):
        pass
    result = nri("replay", str(tmp_path / "traces"), "--plugin", plugin(tmp_path, "new"))
    assert (result.returncode, result.stdout) == (1, "0 events run again: 0 the same, 0 different\n")
    assert f"no event of a pod or a container could be read. nri trace show {tmp_path}/traces lists" in result.stderr


@pytest.mark.parametrize(("damage", "code"), [(odd_block(version=2), 1), (b"NRIB", 2)])
def test_unreadable_files_are_reported_without_a_plugin(
    nri, folder: Path, tmp_path: Path, damage: bytes, code: int
) -> None:
    (source,) = folder.iterdir()
    copy = tmp_path / "copy.nritrace"
    copy.write_bytes((blocks.MAGIC if code == 1 else source.read_bytes()) + b"no block" + damage)
    result = nri("replay", str(copy))
    first, *_, last = result.stderr.splitlines()
    assert result.returncode == code
    assert first.startswith(f"{copy}: at byte ")
    assert ("a plugin is required" in last, "1 block of version 2" in last) == (code == 2, code == 1), result.stderr


def test_observing_commands_are_not_listed_as_plugins(nri, tmp_path: Path) -> None:
    with Recorder(tmp_path, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.add(Sets(), "10")
        for name in ("drift", "events", "record"):
            runtime.add(Looks(), "99", f"nri-{name}-4711")
        runtime.create_container(make_pod(name="web"), make_container(name="main"))
    assert nri("replay", str(tmp_path)).stderr.splitlines()[0].endswith("The recording has 10-sets")
    (tmp_path / "plugin").mkdir()
    result = nri("replay", str(tmp_path), "--plugin", plugin(tmp_path / "plugin", "new"))
    assert result.returncode == 5 and "99-nri-" not in result.stderr


@pytest.mark.parametrize(("index", "text"), [("10", False), ("20", True)])
def test_a_difference_names_recorded_plugins_that_are_missing(
    nri, folder: Path, tmp_path: Path, index: str, text: bool
) -> None:
    result = nri("replay", str(folder), "--plugin", plugin(tmp_path, "new").replace("10=", f"{index}="))
    assert result.returncode == 5
    line = "10-sets took part in the recording, but not in this run: add it with --plugin 10=PLUGIN"
    assert (line in result.stderr) is text, result.stderr


def test_redacted_values_exit_with_1_and_the_next_step(nri, tmp_path: Path) -> None:
    result = nri("replay", str(record(tmp_path / "traces", redact=True)), "--plugin", plugin(tmp_path, "new"))
    assert (result.returncode, result.stdout) == (1, "0 events run again: 0 the same, 0 different\n")
    assert "1 event left out: its values were replaced in the recording: record with --redact none" in result.stderr


def test_damage_is_reported_and_the_rest_is_replayed(nri, folder: Path, tmp_path: Path) -> None:
    (source,) = folder.glob("*.nritrace")
    copy = tmp_path / "copy.nritrace"
    copy.write_bytes(source.read_bytes() + b"x" * 100)
    result = nri("replay", str(copy), "--plugin", plugin(tmp_path, "o\x1bld"))
    assert (result.returncode, result.stdout) == (1, "1 event run again: 1 the same, 0 different\n")
    assert f"{copy}: at byte " in result.stderr


def test_a_missing_policy_is_an_error(nri, folder: Path, tmp_path: Path) -> None:
    result = nri("replay", str(folder), "--plugin", plugin(tmp_path, "new"), "--policy", str(tmp_path / "absent"))
    assert result.returncode == 2
    assert "absent" in result.stderr


def test_the_replay_can_be_recorded(nri, folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    nri("replay", str(folder), "--plugin", plugin(tmp_path, "new").replace("10=", "20="), "--record", str(new))
    result = nri("predict", str(folder), str(new), "-o", "json")
    (row,) = json.loads(result.stdout)
    assert (row["key"], row["first"], row["second"]) == ("LEVEL", "10-sets", "20-sets")


def test_lost_steps_are_reported_and_exit_with_1(nri, folder: Path, tmp_path: Path) -> None:
    lossy = tmp_path / "lossy.nritrace"
    (full,) = folder.iterdir()
    note = t.Record(kind=t.LOST, time_ns=1, count=3)
    block = blocks.pack(bytes_field(1, note.SerializeToString()), 1, 1, 1)
    lossy.write_bytes(full.read_bytes() + block)
    result = nri("replay", str(lossy), "--plugin", plugin(tmp_path, "o\x1bld"))
    assert (result.returncode, "at least 3 steps missing" in result.stderr) == (1, True), result.stderr


def test_a_recorded_missing_answer_is_reported(nri, tmp_path: Path) -> None:
    let = threading.Event()

    class Late(package.Plugin):
        def create_container(self, pod: package.PodSandbox, container: package.Container) -> None:
            let.wait()

    policy = '["10-late"]\ntimeout = "200ms"\n'
    with Recorder(tmp_path) as recorder, FakeRuntime(reporters=[recorder], policy=policy) as runtime:
        runtime.add(Late(), "10").start_container(make_pod(), make_container())
        runtime.create_container(make_pod(), make_container())
        let.set()
    result = nri("replay", str(tmp_path), "--plugin", plugin(tmp_path, "new"), "-o", "json")
    events = {entry["event"]: entry["missed"] for entry in map(json.loads, result.stdout.splitlines())}
    assert events == {
        "StartContainer": {},
        "CreateContainer": {"10-late": "deadline exceeded while waiting for CreateContainer"},
    }
    text = "10-late did not answer 1 event in the recording; the runtime continued without it"
    assert text in result.stderr
