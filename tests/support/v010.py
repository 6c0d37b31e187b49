"""Programs of the protocol 0.1.0 for tests, and the file that names them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.support.programs import write_program

#: Appends each request to a file, and answers as its `conf` says: raw, error, metadata, code.
_RECORDER = """#!{python} -SE
import json, sys
text = sys.stdin.read()
with open({log!r}, "a") as file:
    file.write(json.dumps({{"argv": sys.argv[1:], "request": json.loads(text)}}) + "\\n")
request = json.loads(text)
conf = request.get("conf") or {{}}
result = {{"plugin": "recorder", "version": request["version"], "error": conf.get("error", ""), "extra": 1}}
result["metadata"] = conf.get("metadata", {{}})
sys.stdout.write(conf.get("raw", json.dumps(result)))
sys.exit(conf.get("code", 0))
"""


class Node:
    """A node's file and folder of programs of the protocol 0.1.0.

    Attributes:
        conf, programs: the file, and the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.conf = folder / "conf.json"
        self.programs = folder / "bin"
        self._log = folder / "requests.jsonl"
        write_program(self.programs, "recorder", _RECORDER.format(python=sys.executable, log=str(self._log)))

    @property
    def config(self) -> str:
        """The adapter's configuration."""
        return json.dumps({"conf": str(self.conf), "bin_dir": str(self.programs)})

    def write(self, listing: Any) -> None:
        """Write the file, an object or a text."""
        self.conf.write_text(listing if isinstance(listing, str) else json.dumps(listing))

    def name(self, *types: str | tuple[str, Any]) -> None:
        """Have these programs run, each with its configuration if it has one."""
        rows = [{"type": kind} if isinstance(kind, str) else {"type": kind[0], "conf": kind[1]} for kind in types]
        self.write({"version": "0.1", "plugins": rows})

    def program(self, name: str, text: str) -> None:
        """Add a program, as a shell script."""
        write_program(self.programs, name, "#!/bin/sh\n" + text)

    def requests(self) -> list[Any]:
        """What the recorder was asked since the last time, in order."""
        if not self._log.exists():
            return []
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        self._log.unlink()
        assert all(line["argv"] == ["invoke"] for line in lines)
        return [line["request"] for line in lines]
