"""The `nri` command as `python -m nri`: for an environment whose `bin` is not on PATH, and for a chosen Python.

One job: to hand over to `nri.cli.entry`, the next to read. No plugin loads it.
"""

from __future__ import annotations

from nri.cli.entry import start

if __name__ == "__main__":
    start()
