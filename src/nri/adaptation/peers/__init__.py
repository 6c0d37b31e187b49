"""One plugin as the runtime sees it: who it is, its state, how an event is put to it.

Reading order: `peer` and `state` (the table that it follows), `remote`, `builtin` and `wasm` (its kinds),
`event_request` (what they are asked with), `synchronize`, `turns`, `breaker`, `health`.
"""
