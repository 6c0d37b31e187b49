"""One event on its way through all plugins: from the runtime's call to one merged, validated answer.

Reading order: `dispatcher` (the loop), `order`, `invoker` (with the errors) and `silence` (how long it waits), `event`
with `bounds` and `event_reply`, `create_event`, `update_event` and `stop_event`, `validation`. `dispatcher`,
`order`, `invoker` and `event` are the way of any event, turns and failures included.
"""
