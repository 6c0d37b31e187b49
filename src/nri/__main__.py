"""The `nri` command as `python -m nri`, for environments without the command in PATH, or for a specific Python."""

from __future__ import annotations

from nri.cli.entry import start

if __name__ == "__main__":
    start()
