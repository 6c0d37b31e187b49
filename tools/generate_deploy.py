"""Write the manifests, charts and units of plugins and agent: `python tools/generate_deploy.py`, or `--check`.

One job: below deploy/ the folders kustomize, helm and systemd are what `tools.deployment` makes of deploy/plugins.yaml,
deploy/agent.yaml and deploy/agent, and of nothing else. They are checked in, so that a person can read and apply them,
and compared in CI.
Rules: what is written by hand (templates of the library chart and of the agent, all of resource-annotator) is left
alone; a file that nothing makes any more is removed, and counts as different.

Exit codes: 0 done or equal, 1 different.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.deployment import chart, kustomize, table, unit  # noqa: E402
from tools.deployment.agent import chart as agent_chart  # noqa: E402
from tools.deployment.agent import kustomize as agent_kustomize  # noqa: E402
from tools.deployment.agent import unit as agent_unit  # noqa: E402

DEPLOY = ROOT / "deploy"
#: Its chart is written by hand, but for the versions, and so is what kustomize has of it.
ANNOTATOR = "helm/resource-annotator"
BY_HAND = (
    "helm/nri-plugin/templates/",
    "helm/agent/templates/",
    "kustomize/resource-annotator/",
    *(f"{ANNOTATOR}/{name}" for name in ("templates/", "values.", "README.md")),
)


def wanted() -> tuple[dict[str, str], dict[str, str]]:
    """All files below deploy/ by path, and the links with what they point to."""
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    for need in table.read():
        files |= {f"kustomize/{path}": text for path, text in kustomize.files(need).items()}
        files |= {f"helm/{path}": text for path, text in chart.files(need).items()}
        files |= {f"systemd/{path}": text for path, text in unit.files(need).items()}
        links[f"helm/{need.name}/charts/{chart.LIBRARY}"] = f"../../{chart.LIBRARY}"
    files |= {f"kustomize/{path}": text for path, text in (kustomize.components() | agent_kustomize.files()).items()}
    files |= {f"systemd/{path}": text for path, text in agent_unit.files().items()}
    files |= {f"helm/{path}": text for path, text in (chart.library() | agent_chart.files()).items()}
    does = "Annotate pods with their resources, so that nothing on the nodes has to estimate them."
    files[f"{ANNOTATOR}/Chart.yaml"] = chart.application("resource-annotator", does)
    return files, links


def present() -> set[str]:
    """The files and links that are there, but for those that are written by hand."""
    found = set()
    for top in ("kustomize", "helm", "systemd"):
        for folder, folders, names in os.walk(DEPLOY / top):
            linked = [name for name in folders if Path(folder, name).is_symlink()]
            found |= {str(Path(folder, name).relative_to(DEPLOY)) for name in (*names, *linked)}
    return {path for path in found if not path.startswith(BY_HAND)}


def main() -> int:
    """Write or compare everything."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    files, links = wanted()
    there = present()
    stale = sorted(there - files.keys() - links.keys())
    stale += [path for path, text in files.items() if path not in there or (DEPLOY / path).read_text() != text]
    stale += [path for path, to in links.items() if path not in there or os.readlink(DEPLOY / path) != to]
    for path in stale:
        if check:
            print(f"deploy/{path}: out of date, run: python tools/generate_deploy.py")
            continue
        place = DEPLOY / path
        place.unlink(missing_ok=True)
        if path in files or path in links:
            place.parent.mkdir(parents=True, exist_ok=True)
        if path in files:
            place.write_text(files[path])
        elif path in links:
            place.symlink_to(links[path])
        print(f"{'wrote' if place.exists() else 'removed'} deploy/{path}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
