"""axe-core, which finds what keeps people with other senses from using a page: pinned, out of a wheel that has it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.browser import Page

WHEEL, VERSION = "axe_playwright_python", "0.1.8"
SHA256 = "fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8"
_KEPT = Path(__file__).parents[2] / "build" / "axe"
#: How bad a finding is, by axe-core's words, that a page must not have.
SERIOUS = ("serious", "critical")


def axe() -> str:
    """The script, fetched once by pip and compared with its checksum; nothing else of the wheel is used."""
    archive = _KEPT / f"{WHEEL}-{VERSION}-py3-none-any.whl"
    if not archive.exists():
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command = [*fetch, "--dest", str(_KEPT), f"{WHEEL}=={VERSION}"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert result.returncode == 0, f"pip: {result.stderr}"
    hexdigest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert hexdigest == SHA256, f"{archive} is another {WHEEL} {VERSION}: {hexdigest}"
    with zipfile.ZipFile(archive) as wheel:
        return wheel.read(f"{WHEEL}/axe.min.js").decode()


def findings(page: Page, script: str) -> list[str]:
    """What is wrong with a page as it is shown now, seriously: rule, element, and how to mend it."""
    page.ask(f"{script}; undefined")
    document = json.loads(page.ask("axe.run(document).then(JSON.stringify)"))
    assert len(document["passes"]) > 10, "it has looked at the page"
    return [
        f"{row['impact']} {row['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for row in document["violations"]
        if row["impact"] in SERIOUS
        for node in row["nodes"][:5]
    ]
