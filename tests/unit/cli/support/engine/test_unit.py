"""The systemd unit of the engine."""

from nri.cli.support.engine.unit import unit_text


def test_the_interpreter_is_written_as_systemd_reads_it() -> None:
    assert "\nExecStart=/opt/nri/bin/python -m nri.cli.entry engine serve\n" in unit_text("/opt/nri/bin/python")
    assert "ExecStart='/o p/50%%/python' -m" in unit_text("/o p/50%/python")


def test_no_marker_is_left() -> None:
    assert "@" not in unit_text("/p")
