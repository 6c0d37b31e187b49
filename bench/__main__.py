"""`python -m bench` is `python -m bench.run`, and `python -m bench engine` is `python -m bench.engine.run`."""

import sys

if sys.argv[1:2] == ["engine"]:
    from bench.engine.run import main

    raise SystemExit(main(sys.argv[2:]))

from bench.run import main as run

raise SystemExit(run())
