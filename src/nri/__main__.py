"""The `nri` command as `python -m nri`: for an environment whose `bin` is not on PATH, or for a chosen Python."""

from __future__ import annotations

from nri.cli.entry import start

if __name__ == "__main__":
    start()
