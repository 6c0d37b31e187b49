"""One event on its way through all plugins: from the runtime's call to one merged, validated answer.

Reading order: `dispatcher` (the loop), `order`, `invoker`, `event` with its `event_context` and `bounds`,
`create_event`, `update_event` and `stop_event`, `validation`.
"""
