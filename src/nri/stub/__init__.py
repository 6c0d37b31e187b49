"""The plugin side of the wire: what a person who writes a plugin imports from `nri`.

From top to bottom, and imports only go down:

- `plugin` is `nri.Plugin`, the class to inherit from;
- `program/` runs a plugin as a process: `start` from a command line, `options`, `process`, `reconnect`;
- `session/` is one connection: `session` its life, `service` the requests that it answers;
- `base` is `PluginBase`: a method for each event, and what a handler finds in `self`;
- `handler/` calls one handler: `call`, `answers`, `coroutines`;
- `support/` is what all of these use: `context`, `runtime_handle`, `mirror`, `logs`, `checks`, `initial`, `when`.

These packages import nothing by themselves: a plugin's start pays for every module.
"""
