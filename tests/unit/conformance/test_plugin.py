"""The conformance test of plugins: a correct plugin and a faulty plugin."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from nri.conformance import plugin as program
from nri.conformance.plugin import candidate, examine
from nri.errors import NriError

pytestmark = pytest.mark.timeout(180)
GOOD = """
import nri
class Good(nri.Plugin):
    def create_container(self, pod, container):
        return nri.Adjustment().add_env("POD_NAME", pod.name)
    def validate_container_adjustment(self, request):
        pass
"""
BAD = f"""#!{sys.executable}
import os, signal, time
import nri
class Bad(nri.Plugin):
    def create_container(self, pod, container):
        if not container.args:
            os._exit(3)
        return nri.Adjustment().add_env("N", str(time.monotonic())), [nri.Update("nope").set_cpu_shares(5)]
    def start_container(self, pod, container):
        time.sleep(3.0)
    def update_container(self, pod, container, resources):
        raise nri.Reject("not this one")
    def remove_pod_sandbox(self, pod):
        raise KeyError(pod.id)
    def closed(self):
        time.sleep(100)
if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Bad.main()
"""


def judged(words: list[str], timeout_s: float) -> dict[str, tuple[str, str]]:
    report = examine(candidate(words, None, timeout_s), lambda _: None)
    return {row.name: (row.outcome, row.note) for section in report.sections for row in section.rows}


def test_a_correct_plugin_passes_all_rows(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    outcomes = judged([str(tmp_path / "good.py")], 10.0)
    assert {outcome for outcome, _ in outcomes.values()} == {"ok"}, outcomes
    assert outcomes["the runtime stops"][1] == "the program ends"


def test_the_mistakes_of_a_faulty_plugin_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "END_TIMEOUT_S", 0.5)  # it never ends
    bad = tmp_path / "10-bad"
    bad.write_text(BAD)
    bad.chmod(0o755)
    outcomes = judged([str(bad)], 2.0)  # for the answer to Configure as well, on a busy machine
    assert outcomes["registers and is synchronized"][0] == "ok"
    assert outcomes["StartContainer"] == ("wrong", "StartContainer: no answer in time")
    assert outcomes["UpdateContainer"][0] == "refuses"
    assert "this event cannot be refused" in outcomes["RemovePodSandbox"][1]
    assert outcomes["the same request gets the same answer"][0] == "differs"
    assert "1 update of a container that does not exist" in outcomes["updates only existing containers"][1]
    assert "the connection ended" in outcomes["a pod and a container with only ids"][1]
    assert outcomes["the runtime stops"][0] == outcomes["SIGTERM"][0] == "wrong"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["/nowhere"], "not an executable program: specify an executable file"),
        (["sh"], f"sh: not an executable program: write the program's path, {shutil.which('sh')}"),
        (["/nowhere.py"], "/nowhere.py: not an executable program"),
        (["/bin/true", "-x"], "write {socket}"),
        (["/bin/true"], "never registered|ended"),
        (["/bin/true", "{socket}"], "the program has ended: start it by hand to see its output"),
    ],
)
def test_a_program_that_is_not_a_plugin_is_an_error(words: list[str], message: str) -> None:
    with pytest.raises(NriError, match=message):
        examine(candidate(words, None, 1.0), lambda _: None)


def test_the_last_output_of_a_program_that_never_registers_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "10-sick"
    program.write_text("#!/bin/sh\necho no libfoo.so here >&2\nexit 1\n")
    program.chmod(0o755)
    for words in ([str(program)], [str(program), "{socket}"]):
        with pytest.raises(NriError, match=r"no libfoo\.so here"):
            examine(candidate(words, None, 1.0), lambda _: None)


def test_a_program_that_exits_before_its_signal_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(pid: int, _: int, kill: Any = os.kill) -> None:
        kill(pid, signal.SIGKILL)
        raise ProcessLookupError

    (tmp_path / "good.py").write_text(GOOD)
    monkeypatch.setattr(os, "kill", late)
    assert judged([str(tmp_path / "good.py")], 10.0)["SIGTERM"] == ("ok", "the program ends")


def test_a_program_that_cannot_be_run_is_an_error_with_its_path() -> None:
    with pytest.raises(NriError, match="/nowhere: cannot be run"):
        examine(candidate(["/nowhere", "{socket}"], None, 1.0), lambda _: None)
