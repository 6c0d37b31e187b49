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


def test_the_same_plugin_ends_with_0(nri, folder: Path, tmp_path: Path) -> None:
    result = nri("replay", str(folder), "--plugin", plugin(tmp_path, "o\x1bld"))
    assert (result.returncode, result.stdout) == (0, "1 event run again: 1 the same, 0 different\n"), result.stderr


def test_a_changed_plugin_ends_with_5_and_every_difference(nri, folder: Path, tmp_path: Path) -> None:
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


def test_without_a_plugin_those_of_the_recording_are_named(nri, folder: Path) -> None:
    result = nri("replay", str(folder))
    assert result.returncode == 2
    assert "a plugin is required: --plugin NN=PLUGIN. The recording has 10-sets" in result.stderr


def test_without_a_plugin_those_that_recorded_themselves_are_named_in_their_order(nri, tmp_path: Path) -> None:
    with Recorder(tmp_path, redact=False, about={"command": "nri run"}) as recorder:
        for serial, label in enumerate(("20-mem", "10-level", "99-nri-record-4711", "99-nri-drift"), 1):
            recorder.event_begins("RunPodSandbox", serial, b"")
            recorder.plugin_asked(label, "RunPodSandbox", serial, b"")
            recorder.event_ends("RunPodSandbox", serial, b"", None, 0.1)
    assert nri("replay", str(tmp_path)).stderr.splitlines()[-1].endswith("The recording has 10-level, 20-mem")


def test_without_a_plugin_odd_names_of_a_recording_are_told_in_one_line(nri, tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.plugin_changed("10-a\nerror: \x1b[31mforged", "active", {})
    result = nri("replay", str(tmp_path))
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1), result.stderr
    assert result.stderr.endswith("The recording has 10-a\\nerror: \\x1b[31mforged\n")


def test_of_a_recording_without_events_it_says_so(nri, tmp_path: Path) -> None:
    with Recorder(tmp_path / "traces"):
        pass
    result = nri("replay", str(tmp_path / "traces"), "--plugin", plugin(tmp_path, "new"))
    assert (result.returncode, result.stdout) == (1, "0 events run again: 0 the same, 0 different\n")
    assert f"no event of a pod or a container could be read. nri trace show {tmp_path}/traces lists" in result.stderr


@pytest.mark.parametrize(("damage", "code"), [(odd_block(version=2), 1), (b"NRIB", 2)])
def test_without_a_plugin_what_cannot_be_read_is_named_and_is_the_error_if_nothing_can(
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


def test_our_own_commands_that_only_looked_on_are_none_that_could_be_given(nri, tmp_path: Path) -> None:
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
def test_a_difference_names_plugins_of_the_recording_that_were_not_given(
    nri, folder: Path, tmp_path: Path, index: str, text: bool
) -> None:
    result = nri("replay", str(folder), "--plugin", plugin(tmp_path, "new").replace("10=", f"{index}="))
    assert result.returncode == 5
    line = "10-sets took part in the recording, but not in this run: add it with --plugin 10=PLUGIN"
    assert (line in result.stderr) is text, result.stderr


def test_values_that_were_replaced_end_with_1_and_what_to_do(nri, tmp_path: Path) -> None:
    result = nri("replay", str(record(tmp_path / "traces", redact=True)), "--plugin", plugin(tmp_path, "new"))
    assert (result.returncode, result.stdout) == (1, "0 events run again: 0 the same, 0 different\n")
    assert "1 event left out: its values were replaced in the recording: record with --redact none" in result.stderr


def test_damage_is_named_and_the_rest_is_run(nri, folder: Path, tmp_path: Path) -> None:
    (source,) = folder.glob("*.nritrace")
    copy = tmp_path / "copy.nritrace"
    copy.write_bytes(source.read_bytes() + b"x" * 100)
    result = nri("replay", str(copy), "--plugin", plugin(tmp_path, "o\x1bld"))
    assert (result.returncode, result.stdout) == (1, "1 event run again: 1 the same, 0 different\n")
    assert f"{copy}: at byte " in result.stderr


def test_a_policy_that_is_not_there_is_an_error(nri, folder: Path, tmp_path: Path) -> None:
    result = nri("replay", str(folder), "--plugin", plugin(tmp_path, "new"), "--policy", str(tmp_path / "absent"))
    assert result.returncode == 2
    assert "absent" in result.stderr


def test_what_happens_now_can_be_recorded(nri, folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    nri("replay", str(folder), "--plugin", plugin(tmp_path, "new").replace("10=", "20="), "--record", str(new))
    result = nri("predict", str(folder), str(new), "-o", "json")
    (row,) = json.loads(result.stdout)
    assert (row["key"], row["first"], row["second"]) == ("LEVEL", "10-sets", "20-sets")


def test_lost_steps_are_told_and_end_with_1(nri, folder: Path, tmp_path: Path) -> None:
    lossy = tmp_path / "lossy.nritrace"
    (full,) = folder.iterdir()
    note = t.Record(kind=t.LOST, time_ns=1, count=3)
    block = blocks.pack(bytes_field(1, note.SerializeToString()), 1, 1, 1)
    lossy.write_bytes(full.read_bytes() + block)
    result = nri("replay", str(lossy), "--plugin", plugin(tmp_path, "o\x1bld"))
    assert (result.returncode, "at least 3 steps missing" in result.stderr) == (1, True), result.stderr


def test_a_plugin_that_gave_no_answer_in_the_recording_is_told(nri, tmp_path: Path) -> None:
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
