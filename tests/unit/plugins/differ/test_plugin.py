"""`differ` logs the changes of plugins between its indices, for each event and container."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import nri
from nri.config.flags import flag_layer
from nri.config.layers import merge
from nri.errors import NriError
from nri.plugins.differ import plugin as module
from nri.plugins.differ.plugin import Differ, DifferConfig
from nri.stub.program.options import Options, parse
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.plugin_program import plugin_program


def of(indices: str) -> tuple[int, ...]:
    return merge(DifferConfig, [flag_layer(DifferConfig, "indices", "indices", [indices])]).value.indices


def test_indices_are_numbers_between_commas() -> None:
    assert of("00,08,99") == (0, 8, 99)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("5", "at least two different indices are required"),
        ("5,5,6", "at least two different indices are required"),
        ("0,100", "100 is not an index from 0 to 99"),
        ("0,x", r'--indices: indices\[1\]: expected a whole number, not "x"'),
    ],
)
def test_invalid_indices_are_an_error_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(nri.ConfigError, match=reason):
        of(text)


class Between(nri.Plugin):
    """Changes containers, and refuses one of them."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        if container.name == "refused":
            raise nri.Reject("not this one")
        return nri.Adjustment().add_env("A", "1").set_memory_limit(5)

    def update_container(
        self, pod: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources
    ) -> nri.Update:
        return nri.Update(container.id).set_cpu_shares(7)


def attach(runtime: FakeRuntime, *indices: int, **config: object) -> None:
    """Connect a differ at these indices."""
    for plugin, options in Differ.row(indices, Options()):
        runtime.add(plugin, idx=options.index, config=str(config) if config else "")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture):
    """The lines that it has logged so far."""
    caplog.set_level(logging.INFO, "nri.plugin.differ")
    return lambda: [
        line
        for record in caplog.records
        if record.name == "nri.plugin.differ"
        for line in record.getMessage().splitlines()
    ]


def test_changes_of_a_plugin_are_logged_field_by_field(nri_runtime: FakeRuntime, lines) -> None:
    attach(nri_runtime, 0, 99)
    nri_runtime.add(Between(), idx="50")
    nri_runtime.create_container(make_pod(), make_container(env={"PATH": "/bin"}))
    changes = [line for line in lines() if line.startswith("[99] CreateContainer")]
    assert changes == [
        "[99] CreateContainer: pod: <no changes>",
        "[99] CreateContainer: container: create: env[A]: From: <nil> -> To: A=1",
        "[99] CreateContainer: container: create: linux.resources.memory.limit.value: From: <nil> -> To: 5",
    ]


def test_the_plugin_changes_no_container(nri_runtime: FakeRuntime, lines) -> None:
    attach(nri_runtime, 0, 99)
    reply = nri_runtime.create_container(make_pod(), make_container())
    with FakeRuntime() as alone:
        assert reply.adjust == alone.create_container(make_pod(), make_container()).adjust


def test_each_index_logs_the_changes_since_the_previous_index(nri_runtime: FakeRuntime, lines) -> None:
    attach(nri_runtime, 99, 0, 40)
    nri_runtime.add(Between(), idx="30")
    nri_runtime.create_container(make_pod(), make_container())
    assert len([line for line in lines() if line.startswith("[40] CreateContainer: container: create: env[A]")]) == 1
    assert "[99] CreateContainer: container: <no changes>" in lines()


def test_a_refused_creation_is_not_compared_with_the_next_creation(nri_runtime: FakeRuntime, lines) -> None:
    attach(nri_runtime, 0, 99)
    nri_runtime.add(Between(), idx="50")
    with pytest.raises(NriError):
        nri_runtime.create_container(make_pod(), make_container(name="refused"))
    nri_runtime.create_container(make_pod(), make_container(name="good"))
    assert [line for line in lines() if "refused" in line or "good" in line] == []
    assert "[99] CreateContainer: container: create: env[A]: From: <nil> -> To: A=1" in lines()


def test_resources_of_updates_are_compared(nri_runtime: FakeRuntime, lines) -> None:
    attach(nri_runtime, 0, 99)
    nri_runtime.add(Between(), idx="50")
    pod, container = make_pod(), make_container()
    nri_runtime.create_container(pod, container)
    nri_runtime.update_container(pod, container, nri.LinuxResources())
    assert "[99] UpdateContainer: resources: create: cpu.shares.value: From: <nil> -> To: 7" in lines()


def test_different_lines_are_logged_as_yaml(nri_runtime: FakeRuntime, lines) -> None:
    attach(nri_runtime, 0, 99, yaml=True)
    nri_runtime.add(Between(), idx="50")
    nri_runtime.create_container(make_pod(), make_container(env={"PATH": "/bin"}))
    assert "[99] CreateContainer: container: +- A=1" in lines()


@pytest.mark.parametrize(("level", "parts"), [(0, []), (1, ["[00] "]), (2, ["[00] ", " before: ", " after: "])])
def test_a_higher_level_logs_the_data(nri_runtime: FakeRuntime, lines, level: int, parts: list[str]) -> None:
    attach(nri_runtime, 0, 99, verboseLevel=level)
    nri_runtime.add(Between(), idx="50")
    nri_runtime.create_container(make_pod(), make_container(name="app"))
    name_lines = [line for line in lines() if "name: app" in line]
    assert [part for part in ("[00] ", " before: ", " after: ") if any(part in line for line in name_lines)] == parts


def test_the_highest_level_logs_existing_pods_and_containers(lines) -> None:
    with FakeRuntime(pods=[make_pod(name="web")]) as runtime:
        attach(runtime, 0, 99, verboseLevel=3)
    assert "[00] Synchronize: pods:   name: web" in lines()


def test_messages_that_wait_for_the_next_index_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT_EVENTS", 3)
    (first, _), _ = Differ.row([0, 1], Options())
    for number in range(10):
        first.run_pod_sandbox(make_pod(id=str(number)))
    assert [event[1] for event in first.messages.by_position[0]] == ["7", "8", "9"]


def test_the_program_connects_once_per_index(tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    words = ["-m", "nri.plugins.differ.plugin", "-indices", "05,10,95", "-socket-path", socket]
    with FakeRuntime(socket_path=str(socket)) as runtime, plugin_program(tmp_path, *words) as program:
        assert runtime.adaptation.ready(["05-differ", "10-differ", "95-differ"], 20), program.text()
        runtime.run_pod_sandbox(make_pod())
        program.wait_text("nri.plugin.95-differ: [95] RunPodSandbox: pod: <no changes>")
        assert program.stop() == 0


def test_the_log_file_has_all_lines(nri_runtime: FakeRuntime, tmp_path: Path, lines) -> None:
    try:
        attach(nri_runtime, 0, 99, logFile=str(tmp_path / "log"))
        nri_runtime.run_pod_sandbox(make_pod())
        assert "[99] RunPodSandbox: pod: <no changes>" in (tmp_path / "log").read_text()
    finally:
        Differ().configure()


def test_the_help_shows_no_index_and_no_launch_by_the_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    from nri.stub.program.start import print_info

    print_info(Differ, Options())
    examples = capsys.readouterr().out.partition("Examples:\n")[2].partition("\n\n")[0]
    assert examples.split("  ")[1:2] == ["nri run differ"] and "nri enable" not in examples


def test_a_launch_by_the_runtime_is_an_error_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    from nri.stub.program.start import run

    options = parse([], {"NRI_PLUGIN_SOCKET": "3", "NRI_PLUGIN_IDX": "10"}, "x", "differ", Differ.flags)
    assert run(Differ, options) == 2
    assert "the runtime has launched this process for one plugin only" in capsys.readouterr().err
