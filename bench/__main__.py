"""`python -m bench` compares events with the Go reference; `python -m bench STUDY` runs a study."""

import importlib
import sys

#: Names of studies -> modules with a `main(arguments)`.
STUDIES = {
    "engine": "bench.studies.engine.run",
    "plugins": "bench.studies.plugins",
    "proxy": "bench.studies.proxy",
    "apiserver": "bench.studies.apiserver.run",
    "modes": "bench.studies.modes.run",
    "pinned": "bench.studies.pinned",
    "placement": "bench.studies.placement",
    "rubik": "bench.studies.rubik",
    "trace": "bench.studies.trace",
}

if sys.argv[1:2] and sys.argv[1] in STUDIES:
    raise SystemExit(importlib.import_module(STUDIES[sys.argv[1]]).main(sys.argv[2:]))

raise SystemExit(importlib.import_module("bench.run").main())
