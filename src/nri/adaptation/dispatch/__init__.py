"""One event on its way through all plugins: from the runtime's call to one merged, validated answer.

Reading order: `dispatcher` (the loop), `order`, `invoker` with `silence` (how long it waits) and `failures` (the
errors), `event` with its `event_context`, `bounds` and `event_reply`, `create_event`, `update_event` and `stop_event`,
`validation`.
"""
