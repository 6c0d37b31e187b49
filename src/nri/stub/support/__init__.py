"""Parts that programs, sessions, handlers and plugins share.

The request at hand (`context`), the other side (`runtime_handle`, `pending`), the state of the node (`mirror`), `logs`,
the `checks` of a plugin's class, what it has `before` a runtime is there, and the pods that a handler chooses (`when`).
"""
