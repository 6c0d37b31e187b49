"""Parts that programs, sessions, handlers and plugins share.

The request at hand (`context`), the other side (`runtime_handle`, `pending`), the state of the node (`mirror`), `logs`,
and the `checks` of a plugin's class.
"""
