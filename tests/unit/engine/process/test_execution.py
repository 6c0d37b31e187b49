"""One more program in a container: its process as the OCI spec has it."""

from nri.engine.process.execution import exec_process


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
