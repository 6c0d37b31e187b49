"""A trial of plugins on pods: events and results. The output is tested in verbs/test_try_."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.adaptation.audit.shadow import ShadowReport
from nri.config import Source
from nri.config.complaint import single_errors
from nri.errors import ConfigError, DeadlineExceeded, NriError, RpcError
from nri.kube.manifest import read_manifests
from nri.testing import FakeRuntime
from nri.testing.trial.outcome import Outcome
from nri.testing.trial.plugins import TrialPlugin
from nri.testing.trial.trial import TrialObserver, program, run

POD = "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: app}]}\n"

Try = Callable[..., Outcome]


@pytest.fixture
def attempt(tmp_path: Path) -> Try:
    """Try a plugin class with this body on pods."""

    def try_(
        body: str, pods: str = POD, *, config: Source | None = None, policy: str | None = None, timeout_s: float = 5.0
    ):
        file = tmp_path / f"tried_{threading.get_native_id()}_{time.monotonic_ns()}.py"
        file.write_text(f"import nri, threading, time\n\nclass Tried(nri.Plugin):\n{body}\n")
        path = None
        if policy is not None:
            path = str(tmp_path / "policy.toml")
            Path(path).write_text(policy)
        return run([TrialPlugin("10", str(file), config)], read_manifests(Source("pod", pods)), path, timeout_s)

    return try_


def test_a_trial_reports_the_changes_of_each_plugin(attempt: Try) -> None:
    body = "    def create_container(self, pod, container):\n        return nri.Adjustment().add_env('A', self.config)"
    outcome = attempt(body, config=Source("c.yaml", "1"))
    assert (outcome.plugins, outcome.refused, outcome.failed) == (["10-tried"], False, False)
    (pod,) = outcome.pods
    assert pod.pod.name == "default/web"
    assert [(step.plugin, step.change.key, step.change.after) for step in pod.containers[0].steps] == [
        ("10-tried", "A", "1")
    ]


def test_every_pod_is_tried(attempt: Try) -> None:
    second = POD.replace("web", "second").replace("app", "other")
    outcome = attempt("    def run_pod_sandbox(self, pod): pass", f"{POD}---\n{second}")
    assert [result.name for result in outcome.results] == ["default/web", "app", "default/second", "other"]


@pytest.mark.parametrize("how", ["{}", "threading.Timer(0.01, lambda: {}).start()"], ids=["in the handler", "later"])
def test_an_update_that_the_plugin_sends_at_the_last_container_is_applied(attempt: Try, how: str) -> None:
    asks = (
        "self.runtime.update(nri.Update(container.id).set_cpu_shares(512)) and self.runtime.evict(container.id, 'old')"
    )
    body = f"    def post_start_container(self, pod, container):\n        {how.format(asks)}"
    (result,) = attempt(body).pods[0].containers
    assert [(step.event, step.change.field, step.change.after) for step in result.steps] == [
        ("UpdateContainers", "CPUShares", 512)
    ]
    assert result.evictions == [(result.id, "old")]


EVERY = """
    mirror = True

    @nri.every(3600)
    def work(self):
        for container in self.state.containers.values():
            self.runtime.update(nri.Update(container).set_cpu_shares(256)).result()
"""


def test_background_work_runs_once_while_the_pods_exist(attempt: Try) -> None:
    (pod,) = attempt(EVERY).pods
    assert [(step.change.field, step.change.after) for step in pod.containers[0].steps] == [("CPUShares", 256)]


def test_an_error_of_background_work_names_the_plugin(attempt: Try) -> None:
    with pytest.raises(NriError, match=r"plugin 10-tried: background work failed: KeyError: 'c'"):
        attempt(EVERY.replace("256)).result()", "256))\n            raise KeyError('c')"))


def test_a_plugin_that_does_not_answer_in_time_is_a_failure(attempt: Try) -> None:
    body = "    def create_container(self, pod, container):\n        time.sleep(4)\n        return nri.Adjustment()"
    outcome = attempt(body, timeout_s=2.0)  # for the answer to Configure as well, on a busy machine
    (result,) = outcome.pods[0].containers
    assert outcome.failed
    assert [(miss.plugin, miss.event) for miss in result.misses] == [("10-tried", "CreateContainer")]
    assert result.misses[0].reason == "no answer to CreateContainer within 2 s; do slow work in a thread"


def test_a_shadow_plugin_is_reported_and_changes_no_result(attempt: Try) -> None:
    body = "    def create_container(self, pod, container):\n        return nri.Adjustment().add_env('A', '1')"
    outcome = attempt(body, policy='["10-tried"]\nshadow = true\n')
    (result,) = outcome.pods[0].containers
    assert (outcome.failed, result.steps) == (False, [])
    assert [(change.field, change.key, change.after) for change in result.shadows[0].changes] == [("Env", "A", "1")]


def test_an_update_of_an_unknown_container_is_reported(attempt: Try) -> None:
    body = "    def create_container(self, pod, container):\n        return nri.Update('nobody').set_cpu_shares(3)"
    assert attempt(body).pods[0].containers[0].left_out == [("10-tried", "CreateContainer")]


CONFIG = "    class Config:\n        level: int = 3\n    config: Config\n    def run_pod_sandbox(self, pod): pass"


def test_an_invalid_configuration_is_an_error_with_file_and_line(attempt: Try) -> None:
    with pytest.raises(ConfigError) as caught:
        attempt(CONFIG, config=Source("my/c.yaml", "\nlevle: 1\nlevel: x\n"))
    lines = [str(entry) for entry in single_errors(caught.value)]
    assert sorted(line.partition(": ")[0] for line in lines) == ["my/c.yaml:2", "my/c.yaml:3"]


def test_an_invalid_policy_is_an_error_with_its_file_and_leaves_no_files(
    attempt: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(ConfigError, match=r"policy\.toml:2: 10-tried\.shadw: unknown key"):
        attempt(CONFIG, policy='["10-tried"]\nshadw = true\n')
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "    def __init__(self):\n        self.x = [][0]\n    def run_pod_sandbox(self, pod): pass",
            r":5: IndexError: ",
        ),
        ("    def synchronize(self, pods, containers):\n        raise ValueError('boo')", "boo"),
    ],
)
def test_a_plugin_that_fails_to_start_is_an_error_of_one_line(attempt: Try, body: str, reason: str) -> None:
    with pytest.raises(NriError, match=reason) as caught:
        attempt(body)
    assert "\n" not in str(caught.value)
    assert "PluginHealth" not in str(caught.value)


def test_a_plugin_with_several_connections_has_several_results() -> None:
    result = run(
        [TrialPlugin("10", "differ"), TrialPlugin("20", "template")], read_manifests(Source("pod", POD)), None, 5.0
    )
    assert sorted(result.plugins) == ["00-differ", "20-template", "99-differ"]


def test_a_trial_does_not_change_the_log_level_of_plugins(attempt: Try) -> None:
    of_plugins = logging.getLogger("nri.plugin")
    before = of_plugins.level
    attempt("    def create_container(self, pod, container):\n        return None")
    assert of_plugins.level == before


PLUGIN = """
import nri
class P(nri.Plugin):
    def create_container(self, pod, container):
        return nri.Adjustment().add_env("A", self.config)
P.main()
"""


def write(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_a_program_registers_under_its_file_name_with_its_configuration(tmp_path: Path) -> None:
    target = write(tmp_path / "40-prog", f"#!{sys.executable}\n{PLUGIN}")
    with FakeRuntime() as runtime:
        with program(runtime, TrialPlugin("40", target, Source("c", "1"))):
            assert runtime.create_container().env == {"A": "1"}
            assert runtime.health("40-prog").pid
        assert runtime.create_container().env == {}, "it ends with the context"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\necho no such luck >&2\nexit 3\n", "does not take part: exit code 3: no such luck"),
        ("#!/nowhere/sh\n", "cannot be run: No such file or directory"),
        ("\0asm\1\0\0\0", "40-prog: WebAssembly plugins run only in a runtime"),
    ],
)
def test_a_program_that_is_not_a_plugin_is_an_error_of_one_line(tmp_path: Path, text: str, reason: str) -> None:
    target = write(tmp_path / "40-prog", text)
    with FakeRuntime() as runtime, pytest.raises(NriError, match=reason), program(runtime, TrialPlugin("40", target)):
        pass


def test_a_program_that_never_registers_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.testing.trial.trial.STEPS", 2)
    target = write(tmp_path / "40-prog", "#!/bin/sh\nsleep 30\n")
    with FakeRuntime() as runtime, pytest.raises(NriError, match="does not take part: it did not register"):
        with program(runtime, TrialPlugin("40", target)):
            pass


def test_a_missing_answer_is_recorded_and_an_error_status_is_not() -> None:
    watching, late = TrialObserver(), DeadlineExceeded()
    watching.record_plugin_invocation("10-a", "CreateContainer", None)
    watching.record_plugin_invocation("10-a", "CreateContainer", RpcError(2, "no"))
    watching.record_plugin_invocation("10-a", "StartContainer", late)
    assert watching.take().silent == [("10-a", "StartContainer", late)]
    assert watching.take() == ([], [], [])


def test_a_shadow_report_without_changes_is_dropped() -> None:
    watching = TrialObserver()
    nothing = ShadowReport("10-a", "CreateContainer", "p", "c", [], [], [])
    for report in (nothing, nothing._replace(failed="broken")):
        watching.record_shadow(report)
    assert [report.failed for report in watching.take().shadows] == ["broken"]


def test_requests_for_absent_containers_are_recorded() -> None:
    watching = TrialObserver()
    watching.record_left_out("10-a", "StopContainer")
    assert watching.take().left_out == [("10-a", "StopContainer")]
