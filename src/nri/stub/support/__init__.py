"""Parts that programs, sessions, handlers and plugins share.

The request at hand (`context`), the other side (`runtime_handle`, `pending`), the state of the node (`mirror`),
`logs`, where they go (`log_destination`), the `checks` of a plugin's class, its `initial` attributes before a runtime
is there, the pods that a handler chooses (`when`), and requests that cannot be read (`unreadable`).
"""
