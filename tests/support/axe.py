"""axe-core, which looks for what keeps people with other senses from using a page: pinned, from the npm registry."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from pathlib import Path

from tests.support.browser import Page
from tests.support.needs import need_tool

VERSION = "4.14.1"
SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
_KEPT = Path(__file__).parents[2] / "build" / "axe"
#: How bad a finding is, by axe-core's words, that a page must not have.
SERIOUS = ("serious", "critical")


def axe() -> str:
    """The script, fetched once by npm and compared with its checksum."""
    archive = _KEPT / f"axe-core-{VERSION}.tgz"
    if not archive.exists():
        _KEPT.mkdir(parents=True, exist_ok=True)
        command = [need_tool("npm"), "pack", "--silent", f"axe-core@{VERSION}", "--pack-destination", str(_KEPT)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"npm: {done.stderr}"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert found == SHA256, f"{archive} is another axe-core {VERSION}: {found}"
    with tarfile.open(archive) as tar:
        member = tar.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def findings(page: Page, script: str) -> list[str]:
    """What is wrong with a page as it is shown now, seriously: rule, element, and how to mend it."""
    page.ask(f"{script}; undefined")
    told = json.loads(page.ask("axe.run(document).then(JSON.stringify)"))
    assert len(told["passes"]) > 10, "it has looked at the page"
    return [
        f"{row['impact']} {row['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for row in told["violations"]
        if row["impact"] in SERIOUS
        for node in row["nodes"][:5]
    ]
