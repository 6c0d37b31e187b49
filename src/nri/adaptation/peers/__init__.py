"""One plugin as the runtime sees it: its identity, its state, and how it is asked.

Reading order: `peer` and `state` (its table of states), `remote`, `builtin` and `wasm` (the kinds of plugins),
`event_request` (the requests to plugins), `synchronize`, `turns`, `breaker`, `health`.
"""
