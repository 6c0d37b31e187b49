"""`python -m bench` is `python -m bench.run`; `engine` is `bench.engine.run`, `plugins` `bench.plugins`."""

import sys

if sys.argv[1:2] == ["engine"]:
    from bench.engine.run import main

    raise SystemExit(main(sys.argv[2:]))

if sys.argv[1:2] == ["plugins"]:
    from bench.plugins import main as plugins

    raise SystemExit(plugins(sys.argv[2:]))

from bench.run import main as run

raise SystemExit(run())
