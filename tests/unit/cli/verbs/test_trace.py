"""`nri trace`: a recording as a table, as JSON, and its statistics."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest

import nri as package
from nri.api import messages as m
from nri.errors import ConflictError, PluginRejected
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace import blocks
from nri.trace.pb import api_pb2 as t
from nri.trace.recorder import Recorder
from nri.wire import bytes_field
from tests.support.commands import unmeasured
from tests.unit.cli.conftest import command, environment


class Sets(package.Plugin):
    """Sets one variable, and refuses containers called bad."""

    def create_container(self, pod: package.PodSandbox, container: package.Container) -> package.Adjustment:
        if container.name == "bad":
            raise package.Reject("not this one")
        return package.Adjustment().add_env("PW", "S3CRET")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recording of a conflict, a refusal and a container that was created, in a pod with a name that is not a
    name."""
    with Recorder(tmp_path) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.add(Sets(), "10").add(Sets(), "20", "other")
        pod = make_pod(name="we\x1b[31mb", namespace="shop")
        with pytest.raises(ConflictError):
            runtime.create_container(pod, make_container(name="one"))
        with pytest.raises(PluginRejected):
            runtime.create_container(pod, make_container(name="bad"))
        runtime.disconnect("20-other")
        runtime.create_container(pod, make_container(name="two"))
    return tmp_path


def write(path: Path, *records: t.Record) -> Path:
    """A trace of one block."""
    raw = b"".join(bytes_field(1, record.SerializeToString()) for record in records)
    path.write_bytes(blocks.MAGIC + blocks.pack(raw, len(records), 1, 2))
    return path


def call(plugin: str, serial: int, duration_ns: int, *, failed: bool = False) -> list[t.Record]:
    """The records of an event that one plugin was asked about."""
    at = {"time_ns": serial * 10**9, "serial": serial, "event": "StopContainer"}
    end = {"kind": t.FAILED, "error": t.Error(text="too late")} if failed else {"kind": t.ANSWERED}
    return [
        t.Record(kind=t.BEGINS, **at),
        t.Record(kind=t.ASKED, plugin=plugin, same=True, **at),
        t.Record(plugin=plugin, duration_ns=duration_ns, **end, **at),
        t.Record(kind=t.ENDS, duration_ns=duration_ns, **at),
    ]


def test_events_are_shown_one_per_line_with_plugins_and_outcome(nri, folder: Path) -> None:
    result = nri("trace", "show", str(folder))
    assert result.returncode == 0, result.stderr
    heading, *lines = result.stdout.splitlines()
    assert heading.split() == ["TIME", "EVENT", "POD/CONTAINER", "MS", "PLUGINS", "(MS)", "OUTCOME"]
    conflict, refused, created = lines[-3:]
    assert "shop/we\\x1b[31mb/one" in conflict
    assert "10-sets=" in conflict
    assert "20-other=" in conflict
    assert "both tried to set" in conflict
    assert "not this one" in refused
    assert created.endswith("  ok")
    assert "20-other=" not in created


def test_control_characters_of_names_are_escaped(nri, folder: Path) -> None:
    outputs = [nri("trace", "show", str(folder), *more).stdout for more in ((), ("-o", "json"), ("-o", "yaml"))]
    assert all("31mb" in text and "\x1b" not in text for text in outputs)


def test_the_last_events_are_shown_and_the_number_of_all(nri, folder: Path) -> None:
    result = nri("trace", "show", str(folder), "--last", "1")
    assert len(result.stdout.splitlines()) == 2
    assert "/two" in result.stdout
    assert "the last 1 of 5 events: --last N shows more" in result.stderr


def test_json_has_every_event_with_its_messages(nri, folder: Path) -> None:
    lines = nri("trace", "show", str(folder), "-o", "json", "--last", "1").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["event"] for event in events] == [*["Synchronize"] * 2, *["CreateContainer"] * 3]
    conflict, refused, created = events[-3:]
    assert conflict["error"]["kind"] == "ConflictError"
    assert conflict["plugins"][1]["refused"]["text"]
    assert (refused["plugins"][0]["error"]["code"], refused["plugins"][0]["reply"]) == (7, None)
    assert created["request"]["container"]["name"] == "two"
    assert created["reply"]["adjust"]["env"][0]["key"] == "PW"
    assert (created["error"], created["plugins"][0]["merged"], created["redacted"]) == (None, True, True)


def test_statistics_have_errors_and_refusals_per_plugin(nri, folder: Path) -> None:
    rows = json.loads(nri("trace", "stat", str(folder), "-o", "json").stdout)
    sums = {(row["plugin"], row["event"]): (row["count"], row["errors"], row["refused"]) for row in rows}
    assert sums["10-sets", "CreateContainer"] == (3, 1, 0)
    assert sums["20-other", "CreateContainer"] == (1, 0, 1)


def test_percentiles_cover_all_finished_calls(nri, tmp_path: Path) -> None:
    calls = [entry for serial in range(1, 101) for entry in call("10-a", serial, serial * 10**6, failed=serial > 98)]
    silent = call("20-b", 101, 5)[:2]
    result = nri("trace", "stat", str(write(tmp_path / "a.nritrace", *calls, *silent)))
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["10-a", "StopContainer", "100", "50.0", "99.0", "2", "0"],
        ["20-b", "StopContainer", "1", "-", "-", "0", "0"],
    ]


def test_rows_of_the_statistics_are_bounded_and_the_rest_is_counted(nri, tmp_path: Path) -> None:
    calls = [entry for serial in range(1, 4004) for entry in call(f"10-{serial}", serial, 1)]
    result = nri("trace", "stat", str(write(tmp_path / "a.nritrace", *calls)))
    assert len(result.stdout.splitlines()) == 4001
    assert "3 calls of further plugins" in result.stderr


def test_an_event_without_a_plugins_answer_names_the_error(nri, tmp_path: Path) -> None:
    path = write(tmp_path / "a.nritrace", *call("10-a", 1, 1, failed=True), *call("10-a", 2, 1)[:3])
    first, second = nri("trace", "show", str(path)).stdout.splitlines()[1:]
    assert first.startswith("1970-01-01T00:00:01.000000Z  StopContainer")
    assert first.endswith("10-a: too late")
    assert second.endswith("incomplete")


def test_an_unknown_event_is_shown_without_messages(nri, tmp_path: Path) -> None:
    at = {"event": "Future", "serial": 1, "time_ns": (1 << 64) - 1}
    records = [t.Record(kind=t.BEGINS, message=b"abc", **at), t.Record(kind=t.ENDS, **at)]
    (line,) = nri("trace", "show", str(write(tmp_path / "a.nritrace", *records)), "-o", "json").stdout.splitlines()
    document = json.loads(line)
    assert (document["request"], document["time"][:4]) == ({"unreadable_bytes": 3}, "2554")


def test_a_container_without_a_name_is_shown_by_its_id(nri, tmp_path: Path) -> None:
    request = m.StopContainerRequest(container=m.Container(id="0123456789abcdef")).SerializeToString()
    at = {"event": "StopContainer", "serial": 1}
    records = [t.Record(kind=t.BEGINS, message=request, **at), t.Record(kind=t.ENDS, **at)]
    result = nri("trace", "show", str(write(tmp_path / "a.nritrace", *records)))
    assert result.stdout.splitlines()[1].split()[2] == "0123456789abc"


@pytest.mark.parametrize("verb", ["show", "stat"])
def test_damage_is_reported_and_the_rest_is_shown(nri, tmp_path: Path, verb: str) -> None:
    path = write(tmp_path / "a.nritrace", *call("10-a", 1, 1))
    with path.open("ab") as file:
        file.write(b"NRI")
    result = nri("trace", verb, str(path))
    assert result.returncode == 1
    assert "10-a" in result.stdout
    assert "a.nritrace: at byte" in result.stderr
    assert "the file is truncated" in result.stderr


def test_many_problems_are_counted(nri, tmp_path: Path) -> None:
    path = tmp_path / "a.nritrace"
    path.write_bytes(blocks.MAGIC + (blocks.pack(b"x", 1, 1, 1)[:-1] + b"?") * 1005)
    result = nri("trace", "stat", str(path))
    assert result.returncode == 1
    assert "further problem" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("verb", ["show", "stat"])
def test_a_file_that_is_not_a_trace_is_an_error(nri, tmp_path: Path, verb: str) -> None:
    path = tmp_path / "a"
    path.write_text("hello")
    result = nri("trace", verb, str(path))
    assert (result.returncode, result.stdout) == (2, "")
    assert "not a trace" in result.stderr


@pytest.mark.parametrize("form", ["chrome", "otlp"])
def test_events_of_a_pod_can_be_exported(nri, folder: Path, form: str) -> None:
    result = nri("trace", "export", str(folder), form, "--pod", "two")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)
    assert ("two" in result.stdout, '"bad"' in result.stdout, "S3CRET" in result.stdout) == (True, False, False)


def test_an_excerpt_is_written_into_a_separate_file(nri, folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    result = nri("trace", "cut", str(folder), str(part), "--pod", "two", "--since", "2020-01-01")
    assert (result.returncode, result.stderr) == (0, f"{part}: 1 event\n")
    assert part.stat().st_mode & 0o777 == 0o600
    assert [
        json.loads(line)["event"] for line in nri("trace", "show", str(part), "-o", "json").stdout.splitlines()
    ] == ["CreateContainer"]


def test_an_excerpt_overwrites_no_file(nri, folder: Path, tmp_path: Path) -> None:
    existing = tmp_path / "there"
    existing.write_text("mine")
    result = nri("trace", "cut", str(folder), str(existing))
    assert (result.returncode, existing.read_text()) == (1, "mine")
    assert f"cannot write {existing}: it already exists. Use another name, or remove it" in result.stderr


def test_an_excerpt_that_does_not_fit_on_the_disk_leaves_no_file(folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    script = f"ulimit -f 0; exec {sys.executable} -m nri trace cut {folder} {part}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=unmeasured())
    assert (result.returncode, result.stderr) == (1, f"error: cannot write {part}: File too large\n")
    assert not part.exists()


def test_an_invalid_time_is_an_error_with_an_example(nri, folder: Path) -> None:
    result = nri("trace", "cut", str(folder), "/dev/null/part", "--until", "yesterday")
    assert result.returncode == 2
    assert "'yesterday' is not a time; write it as 2026-01-31T08:00:00Z" in result.stderr


def test_missing_recordings_and_empty_selections_are_errors_with_the_next_step(nri, folder, tmp_path):
    result = nri("trace", "show", str(tmp_path / "none"))
    assert (
        f"{tmp_path}/none: No such file or directory (specify a file or folder that --record DIR has written)"
        in result.stderr
    )
    result = nri("trace", "cut", str(folder), str(tmp_path / "out"), "--pod", "nope", "--until", "2030-01-01")
    assert "matches --pod nope --until 2030-01-01T00:00:00.000000Z (list all events: nri trace show" in result.stderr
    assert (result.returncode, (tmp_path / "out").exists()) == (2, False)


@pytest.mark.parametrize(
    "words",
    [
        ("trace", "show", ""), ("trace", "stat", ""), ("trace", "export", "", "otlp"), ("trace", "cut", "", "out"),
        ("trace", "cut", "nothing", ""), ("predict", ""), ("replay", ""), ("replay", "x", "--record", ""),
        ("why", "app", "--trace", ""), ("inspect", ""), ("inspect", "x", "--export", ""), ("record", ""),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_empty_name_is_an_error(nri, words: tuple[str, ...]) -> None:
    result = nri(*words)
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1), result.stderr
    assert "the path is empty: specify a file or a folder" in result.stderr


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (["--container", "bad"], ["bad"]),
        (["--pod", "shop/two"], []),
        (["--plugin", "other"], ["one"]),
        (["--plugin", "10-sets", "--errors"], ["one", "bad"]),
        (["--event", "create_container"], ["one", "bad", "two"]),
        (["--event", "StopContainer,synchronize"], []),
        (["--since", "2100-01-01"], []),
    ],
)
def test_filters_select_the_shown_events(nri, folder: Path, filters: list[str], names: list[str]) -> None:
    result = nri("trace", "show", str(folder), "-o", "json", "--event", "container", *filters)
    shown = [json.loads(line) for line in result.stdout.splitlines()]
    containers = [event["request"]["container"]["name"] for event in shown if "container" in event["request"]]
    assert containers == names, result.stderr


def test_statistics_and_export_have_the_same_filters(nri, folder: Path) -> None:
    (row,) = json.loads(
        nri("trace", "stat", str(folder), "-o", "json", "--plugin", "other", "--container", "one").stdout
    )
    assert (row["plugin"], row["count"]) == ("20-other", 1)
    exported = json.loads(nri("trace", "export", str(folder), "perfetto", "--container", "two").stdout)
    bars = [bar["args"]["k8s.container.name"] for bar in exported["traceEvents"] if bar["ph"] == "X"]
    assert set(bars) == {"two"}


def test_an_unknown_event_of_a_filter_is_an_error_with_the_names(nri, folder: Path) -> None:
    result = nri("trace", "show", str(folder), "--event", "Create")
    assert result.returncode == 2 and 'unknown event "Create": expected all, pod' in result.stderr


class Following:
    """`nri trace show -f` of a folder, in a process."""

    def __init__(self, folder: Path, *words: str) -> None:
        argv = command("trace", "show", str(folder), "-f", *words)
        self.process = subprocess.Popen(argv, env=environment(), stdout=PIPE, stderr=PIPE, text=True)
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C. Returns the exit code and what was written to standard error."""
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors


def test_following_prints_events_of_later_blocks_and_files(folder: Path) -> None:
    following = Following(folder, "--last", "1", "--plugin", "sets")
    try:
        assert following.line().split()[:2] == ["TIME", "EVENT"]
        assert "shop/we\\x1b[31mb/two" in following.line(), "the last event of those that existed"
        with Recorder(folder) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
            runtime.add(Sets(), "10")
            assert "Synchronize" in following.line()
            runtime.create_container(make_pod(name="later", namespace="shop"), make_container(name="three"))
            assert "shop/later/three" in following.line(), "before the recorder has closed its file"
    finally:
        code, errors = following.interrupt()
    assert (code, "Traceback" in errors) == (130, False)


def test_followed_events_can_be_filtered_and_printed_as_json(folder: Path) -> None:
    following = Following(folder, "--pod", "shop/web", "-o", "json")
    try:
        path = write(folder / "nri-20990101T000000.000000Z-00000000.nritrace", *call("10-a", 1, 5))
        pods = [make_pod(name=name, namespace="shop") for name in ("x", "web")]
        records = [record for number, pod in enumerate(pods, 2) for record in _stop(number, pod)]
        raw = b"".join(bytes_field(1, record.SerializeToString()) for record in records)
        block = blocks.pack(raw, len(records), 1, 2)
        with path.open("ab", buffering=0) as file:
            file.write(block[:-5])
            time.sleep(1.2)  # two rounds see the incomplete block
            file.write(block[-5:])
        assert json.loads(following.line())["request"]["pod"]["name"] == "web"
    finally:
        code, errors = following.interrupt()
    assert (code, "at byte" in errors) == (130, False), "a block that was not yet complete is not damaged"


def _stop(serial: int, pod: package.PodSandbox) -> list[t.Record]:
    first, *remaining = call("10-a", serial, 5)
    first.message = m.StopContainerRequest(pod=pod).SerializeToString()
    return [first, *remaining]
