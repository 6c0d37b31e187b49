"""`nri pod stop` and `nri pod rm` on a dry engine."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.verbs.pod.conftest import Pod


def test_a_pod_is_stopped_and_removed_with_its_folders(pod: Pod, tmp_path: Path) -> None:
    identity = pod("run", "-f", "pod.yaml", "-q").stdout.strip()
    refused = pod("rm", "web")
    assert (
        refused.returncode == 2 and "shop/web: still running. Use -f, or first: nri pod stop shop/web" in refused.stderr
    )
    assert pod("stop", identity[:9], "--grace", "0").stdout == "shop/web\n"
    assert "notready" in pod("ps", "-a").stdout
    assert [*(tmp_path / "pods").iterdir()]
    assert pod("rm", "web", "-o", "json").stdout == f'{{"id": "{identity}", "pod": "shop/web"}}\n'
    assert not [*(tmp_path / "pods").iterdir()]


def test_names_or_all_are_required(pod: Pod) -> None:
    assert pod("rm").returncode == 2
    assert "the runtime has no pods" in pod("rm", "--all").stderr
    pod("run", "-f", "pod.yaml")
    assert pod("rm", "-f", "--all", "-q").stdout and pod("ps", "-aq").stdout == ""
