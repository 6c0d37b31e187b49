"""`python -m bench` is `python -m bench.run`; with a name of `OTHERS` first it is that benchmark."""

import importlib
import sys

#: What is measured beside events: name -> module with a `main(arguments)`.
OTHERS = {
    "engine": "bench.engine.run",
    "plugins": "bench.plugins",
    "proxy": "bench.proxy",
    "apiserver": "bench.apiserver.run",
    "modes": "bench.modes.run",
    "pinned": "bench.pinned",
    "placement": "bench.placement",
    "rubik": "bench.rubik",
    "trace": "bench.trace",
}

if sys.argv[1:2] and sys.argv[1] in OTHERS:
    raise SystemExit(importlib.import_module(OTHERS[sys.argv[1]]).main(sys.argv[2:]))

raise SystemExit(importlib.import_module("bench.run").main())
