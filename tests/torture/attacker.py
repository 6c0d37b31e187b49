"""The process of one attack: `python -m tests.torture.attacker NAME SOCKET SECONDS TIMEOUT`.

It prints what the attack has counted, as one line of JSON.
"""

from __future__ import annotations

import json
import sys

from tests.torture.attacks import ATTACKS
from tests.torture.hostile import Target


def main(arguments: list[str]) -> int:
    """Run one attack."""
    name, path, seconds, timeout_s = arguments
    target = Target(path, float(seconds), float(timeout_s))
    ATTACKS[name].run(target)
    print(json.dumps(target.count), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
