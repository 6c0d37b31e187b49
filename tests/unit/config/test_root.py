"""Paths below a root folder."""

from __future__ import annotations

from pathlib import Path

from nri.config.root import resolve_below


def test_links_do_not_lead_out_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "run/nri").mkdir(parents=True)
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "loop").symlink_to("loop")
    assert resolve_below(str(tmp_path), "/var/run/nri/nri.sock") == str(tmp_path / "run/nri/nri.sock")
    assert resolve_below(str(tmp_path), "/../../etc/x") == str(tmp_path / "etc/x")
    assert resolve_below("/", "/etc/x") == "/etc/x"
    resolve_below(str(tmp_path), "/loop/x")
