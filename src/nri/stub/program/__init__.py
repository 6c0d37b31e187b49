"""A plugin as a process: how it starts, waits for the runtime, connects again, stops, and what its exit code says.

`start` comes from the command line, `options` are what it said, `process` is the life of the program, `reconnect` the
way to the socket, `stop` the signals, `failure_note` the file that says why it ended. `several` (plugins in one
process), `config_watch` and `health` are loaded when asked for.
"""
