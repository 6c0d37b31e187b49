"""Write the manifests, charts and units of plugins and agent: `python tools/generate_deploy.py`, or `--check`.

The folders kustomize, helm and systemd below deploy/ come from deploy/plugins.yaml, deploy/agent.yaml and deploy/agent.
They are checked in so that a person can read and apply them. CI compares them. Handwritten files (`HANDWRITTEN`) are
left alone. Files without a source are removed.

Exit codes: 0 written or equal, 1 different.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.deployment import chart, kustomize, table, unit  # noqa: E402
from tools.deployment.agent import chart as agent_chart  # noqa: E402
from tools.deployment.agent import kustomize as agent_kustomize  # noqa: E402
from tools.deployment.agent import unit as agent_unit  # noqa: E402

DEPLOY = ROOT / "deploy"
#: This chart is written by hand except for Chart.yaml, and so is its kustomize folder.
ANNOTATOR = "helm/resource-annotator"
HANDWRITTEN = (
    "helm/nri-plugin/templates/",
    "helm/agent/templates/",
    "kustomize/resource-annotator/",
    *(f"{ANNOTATOR}/{name}" for name in ("templates/", "values.", "README.md")),
)


def generated_files() -> dict[str, str]:
    """The texts of all generated files by their path below deploy/."""
    needs = table.read()
    files: dict[str, str] = {}
    for need in needs:
        files |= {f"kustomize/{path}": text for path, text in kustomize.files(need).items()}
        files |= {f"systemd/{path}": text for path, text in unit.files(need).items()}
    files |= {f"kustomize/{path}": text for path, text in (kustomize.components() | agent_kustomize.files()).items()}
    files |= {f"systemd/{path}": text for path, text in agent_unit.files().items()}
    files |= {f"helm/{path}": text for path, text in (chart.files(needs) | agent_chart.files()).items()}
    description = "Annotate pods with their resources, so that plugins on the nodes need not estimate them."
    files[f"{ANNOTATOR}/Chart.yaml"] = chart.application("resource-annotator", description)
    return files


def existing_paths() -> set[str]:
    """The files below deploy/, except handwritten ones."""
    folders = (DEPLOY / folder for folder in ("kustomize", "helm", "systemd"))
    paths = {str(path.relative_to(DEPLOY)) for folder in folders for path in folder.rglob("*") if not path.is_dir()}
    return {path for path in paths if not path.startswith(HANDWRITTEN)}


def main() -> int:
    """Write or compare all files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    files, paths = generated_files(), existing_paths()
    stale = sorted(paths - files.keys())
    stale += [path for path, text in files.items() if path not in paths or (DEPLOY / path).read_text() != text]
    for path in stale:
        if check:
            print(f"deploy/{path}: out of date. Run: python tools/generate_deploy.py")
        elif path in files:
            (DEPLOY / path).parent.mkdir(parents=True, exist_ok=True)
            (DEPLOY / path).write_text(files[path])
            print(f"wrote deploy/{path}")
        else:
            (DEPLOY / path).unlink()
            print(f"removed deploy/{path}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
