"""The plugin side of the wire: what a person who writes a plugin imports from `nri`.

`plugin` is the base class and its checks, `handlers` turns requests into calls of its methods, `session` is the life of
one connection, `reconnect` the life of the process, `options` and `main` start it from a command line. `context`,
`runtime`, `mirror`, `background`, `coroutines`, `logs` and `health` are what a handler finds in `self`.
"""
