"""Draw the pictures of the documentation: `python tools/generate_pictures.py`, or `--check`.

`tools.pictures` draws every file of docs/_static/pictures. The files are checked in, so that pages can be read in the
tree, and compared in CI.

Exit codes: 0 written or equal, 1 different.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.pictures import PICTURES  # noqa: E402

FOLDER = ROOT / "docs/_static/pictures"


def drawn() -> dict[Path, str]:
    """The text of every file."""
    return {FOLDER / f"{name}.svg": draw().svg() for name, draw in PICTURES.items()}


def main() -> int:
    """Write or compare all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    texts = drawn()
    code = 0
    for path in sorted({*texts, *FOLDER.glob("*.svg")}):
        text = texts.get(path)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            print(f"{path.relative_to(ROOT)}: out of date, run: python tools/generate_pictures.py")
            code = 1
        elif text is None:
            path.unlink()
            print(f"removed {path.relative_to(ROOT)}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
