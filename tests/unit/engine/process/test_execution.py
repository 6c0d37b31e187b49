"""One more program in a container: its process as the OCI spec has it, and how long its end is waited for."""

import time
from pathlib import Path

import pytest

from nri.engine.process import Runtime, execution
from nri.engine.process.execution import exec_process, exec_sync
from nri.engine.support.errors import CommandTimeout


def test_the_containers_process_is_taken_over_but_for_arguments_terminal_and_score() -> None:
    container = {
        "args": ["a"],
        "env": ["X=1"],
        "terminal": True,
        "oomScoreAdj": -5,
        "consoleSize": {},
        "user": {"uid": 7},
    }
    assert exec_process(container, ["b", "c"]) == {
        "args": ["b", "c"],
        "env": ["X=1"],
        "terminal": False,
        "user": {"uid": 7},
    }
    assert exec_process(container, ["sh"], tty=True)["terminal"] is True
    assert container["args"] == ["a"]


#: Starts a program that lasts, and takes a moment to look after it when it was killed.
RUNTIME = """\
#!/bin/sh
while [ "$1" != --pid-file ]; do shift; done
sleep 60 &
echo $! > $2
wait $!
sleep 0.5
echo reaped > {folder}/reaped
"""


def test_a_runtime_has_its_time_to_take_a_killed_program_away_also_on_a_machine_that_stood_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were it killed with the program, that would stay in the container as a zombie."""
    script = tmp_path / "runtime"
    script.write_text(RUNTIME.format(folder=tmp_path))
    script.chmod(0o755)
    kill = execution.kill_started
    monkeypatch.setattr(execution, "_REAP_S", 1.0)  # twice what this runtime takes

    def late(pid_file: Path) -> None:
        time.sleep(1.1)
        kill(pid_file)

    monkeypatch.setattr(execution, "kill_started", late)
    with pytest.raises(CommandTimeout):
        exec_sync(Runtime(str(script), tmp_path / "state"), "c", {"args": ["sleep"]}, timeout_s=0.3)
    assert (tmp_path / "reaped").exists()
