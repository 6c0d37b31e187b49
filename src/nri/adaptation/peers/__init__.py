"""One plugin as the runtime sees it: its identity, its state, and how it is asked.

Reading order: `peer` and `state` (its table), `remote`, `builtin` and `wasm` (the kinds of plugins), `event_request`
(what they are asked with), `synchronize`, `turns`, `breaker`, `health`.
"""
