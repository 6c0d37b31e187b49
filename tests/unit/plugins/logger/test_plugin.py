"""`logger` logs every request with its messages and can mark containers."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import nri
from nri.api.events import ALL, EVENTS
from nri.config import Source, read
from nri.plugins.dump import tree_of
from nri.plugins.logger.plugin import FLAGS, Logger, LoggerConfig
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.plugin_program import plugin_program


def test_every_key_except_log_and_events_has_a_flag() -> None:
    assert {row.field for row in FLAGS.values()} == set(LoggerConfig.__annotations__) - {"logFile", "events"}


def test_an_unknown_event_is_an_error_with_the_known_events() -> None:
    with pytest.raises(nri.ConfigError, match=r'x:1: events\[0\]: unknown event "pods": expected all, pod, container'):
        read(LoggerConfig, [Source("x", "events: [pods]")])


MARK = f"logger-pid-{os.getpid()}"


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level(logging.INFO, "nri.plugin.logger")
    yield caplog
    logger = logging.getLogger("nri.plugin.logger")
    logger.propagate = True
    logger.handlers.clear()


def lines_of(log: pytest.LogCaptureFixture, event: str) -> list[str]:
    """The lines of an event in the log, without their beginning."""
    lines = [line for record in log.records for line in record.getMessage().splitlines()]
    return [line.removeprefix(f"{event}: ") for line in lines if line.startswith(f"{event}: ")]


ALL_BUT_VALIDATION = ALL.without("ValidateContainerAdjustment")


@pytest.mark.parametrize(
    ("config", "events"),
    [
        ("", ALL_BUT_VALIDATION),
        ("addEnv: A", ALL_BUT_VALIDATION),
        ("events: [all]", ALL_BUT_VALIDATION),
        ("events: [container]", nri.EventMask.parse("container").without("ValidateContainerAdjustment")),
        ("events: [all, ValidateContainerAdjustment]", ALL),
        ("events: [validate_container_adjustment]", nri.EventMask.of("ValidateContainerAdjustment")),
    ],
)
def test_the_plugin_subscribes_to_all_events_and_to_validation_only_by_name(
    nri_runtime: FakeRuntime, config: str, events: nri.EventMask
) -> None:
    nri_runtime.add(Logger(), idx="10", config=config)
    assert nri_runtime.health("10-logger").events == str(events)


@pytest.mark.parametrize(
    ("flag", "events"),
    [
        ("all", ALL_BUT_VALIDATION),
        (
            "CreateContainer, ValidateContainerAdjustment",
            nri.EventMask.parse("CreateContainer,validatecontaineradjustment"),
        ),
        ("validatecontaineradjustment", nri.EventMask.of("ValidateContainerAdjustment")),
    ],
)
def test_the_command_line_can_select_validation(tmp_path: Path, flag: str, events: nri.EventMask) -> None:
    path = str(tmp_path / "nri.sock")
    words = ("-m", "nri.plugins.logger.plugin", "-idx", "10", "-socket-path", path, "-events", flag)
    with FakeRuntime(socket_path=path) as runtime, plugin_program(tmp_path, *words):
        assert runtime.adaptation.ready(["10-logger"], 20)
        assert runtime.health("10-logger").events == str(events)


def test_each_log_line_has_the_event_and_a_line_of_yaml(nri_runtime: FakeRuntime, log) -> None:
    pod, container = make_pod(name="web", labels={"app": "yes"}), make_container(name="app", env={"A": "x: y"})
    nri_runtime.add(Logger(), idx="10").create_container(pod, container)
    text = lines_of(log, "CreateContainer")
    first, second = text.index("pod:"), text.index("container:")
    assert yaml.safe_load("\n".join(text[first + 1 : second]))["labels"] == {"app": "yes"}
    assert yaml.safe_load("\n".join(text[second + 1 :]))["env"] == ["A=x: y"]


def test_every_event_is_logged_with_its_messages(log) -> None:
    pod, container, resources = make_pod(), make_container(), nri.LinuxResources()
    plugin = Logger()
    for spec in EVENTS:
        if spec.kind == "validation":
            continue
        more = {"UpdateContainer": [resources], "UpdatePodSandbox": [resources, resources]}.get(spec.rpc, [])
        getattr(plugin, spec.method)(pod, *([container] if spec.kind == "container" else []), *more)
        tags = [line for line in lines_of(log, spec.rpc) if not line.startswith(" ")]
        assert tags[0] == "pod:"
        assert ("container:" in tags) == (spec.kind == "container")
        assert ("resources:" in tags) == bool(more)
    assert "overHeadResources:" in lines_of(log, "UpdatePodSandbox")


def test_existing_pods_and_containers_are_logged_separately(log) -> None:
    pods = [make_pod(name=f"p{number}", id=f"p{number}") for number in range(3)]
    with FakeRuntime(pods=pods, containers=[]) as runtime:
        runtime.add(Logger(), idx="10")
    text = lines_of(log, "Synchronize")
    assert yaml.safe_load("\n".join(text[1:-1])) == [tree_of(pod) for pod in pods]
    assert max(len(record.getMessage().splitlines()) for record in log.records) < 20


def test_shutdown_is_logged(log) -> None:
    Logger().shutdown()
    assert [record.getMessage() for record in log.records] == ["Shutdown"]


def test_add_adds_a_mark_and_set_replaces_the_mark_of_others(nri_runtime: FakeRuntime) -> None:
    class Before(nri.Plugin):
        def create_container(self, pod, container):
            return nri.Adjustment().add_env("B", "before").add_annotation("b/x", "before")

    config = "addEnv: A\nsetEnv: B\naddAnnotation: a/x\nsetAnnotation: b/x\n"
    nri_runtime.add(Before(), idx="05").add(Logger(), idx="10", config=config)
    reply = nri_runtime.create_container(make_pod(), make_container())
    assert (reply.env, reply.annotations) == ({"A": MARK, "B": MARK}, {"a/x": MARK, "b/x": MARK})


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("addEnv: true", r"addEnv: expected a string, not true \(write it in quotes"),
        ("addEnv: 1e3", "addEnv: expected a string, not 1000.0"),
        ("addEnv:", "addEnv: expected a string, not null"),
        ("ADDENV: X", r'ADDENV: unknown key \(did you mean "addEnv"'),
        ("addEnv: X\naddEnv: Y", ":2: addEnv: duplicate key"),
        ("addEnv: X\n---\naddEnv: Y", "there is a second document"),
        ("addEnv: -X", "addEnv: must not start with '-'"),
    ],
)
def test_values_that_the_go_plugin_reads_differently_are_an_error(
    nri_runtime: FakeRuntime, config: str, reason: str
) -> None:
    with pytest.raises(nri.ConfigError, match=reason):
        nri_runtime.add(Logger(), idx="10", config=config)


def test_an_invalid_variable_name_is_a_configuration_error(nri_runtime: FakeRuntime) -> None:
    with pytest.raises(nri.ConfigError, match="setEnv: must not contain '=': 'A=B'"):
        nri_runtime.add(Logger(), idx="10", config="setEnv: A=B")


def test_add_conflicts_with_another_plugin_that_sets_the_same_name(nri_runtime: FakeRuntime) -> None:
    class Before(nri.Plugin):
        def create_container(self, pod, container):
            return nri.Adjustment().add_env("A", "before")

    nri_runtime.add(Before(), idx="05").add(Logger(), idx="10", config="addEnv: A")
    with pytest.raises(nri.ConflictError, match="A"):
        nri_runtime.create_container(make_pod(), make_container())


def test_a_configuration_can_select_events(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Logger(), idx="20", config="events: [pod, CreateContainer]")
    assert nri_runtime.health("20-logger").events == str(nri.EventMask.parse("pod", "CreateContainer"))


def test_the_log_file_is_appended_to_and_can_be_changed(nri_runtime: FakeRuntime, tmp_path: Path, log) -> None:
    plugin = Logger()
    (tmp_path / "a").write_text("before\n")
    for name in ("a", "b", ""):
        plugin.config.logFile = str(tmp_path / name) if name else ""
        plugin.configure()
        plugin.run_pod_sandbox(make_pod(name=f"in-{name}"))
    first, second = (tmp_path / "a").read_text(), (tmp_path / "b").read_text()
    assert first.startswith("before\n") and "RunPodSandbox:    name: in-a\n" in first and "in-b" not in first
    assert [line for line in second.splitlines() if " INFO nri.plugin.logger: " not in line] == []
    assert "name: in-\n" in lines_of(log, "RunPodSandbox")[-1] + "\n" or "   name: in-" in lines_of(
        log, "RunPodSandbox"
    )


def test_a_log_file_that_cannot_be_opened_is_an_error_with_its_path(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    with pytest.raises(nri.ConfigError, match=f"logFile: cannot open {tmp_path}/no/such: No such file"):
        nri_runtime.add(Logger(), idx="10", config=f"logFile: {tmp_path}/no/such")
