"""One more program in a container: its process as the OCI spec has it, and what may be killed for it."""

import subprocess
import time
from pathlib import Path

from nri.engine.process.execution import exec_process, kill_started


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


def test_a_number_that_is_another_process_by_now_is_not_killed(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    (tmp_path / "pid").write_text(str(stranger.pid))
    kill_started(tmp_path / "pid")
    time.sleep(0.1)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    for text in (str(stranger.pid), "", "x"):
        (tmp_path / "pid").write_text(text)
        kill_started(tmp_path / "pid")


def test_what_was_started_is_killed_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/child; sh -c 'echo $$ > $0; sleep 61; true' $0"
    runtime = subprocess.Popen(["sh", "-c", script, str(tmp_path / "pid")])
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    kill_started(tmp_path / "pid")
    assert runtime.wait(20) != 0
    subprocess.run(["kill", (tmp_path / "child").read_text().strip()], check=True)
