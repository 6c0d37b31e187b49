"""The plugin side of NRI.

From top to bottom, with imports only downwards:

- `plugin` has `nri.Plugin`, the class to inherit from;
- `program/` runs a plugin as a process;
- `session/` serves one connection;
- `base` has `PluginBase`: a method for each event, and the attributes of `self`;
- `handler/` calls one handler;
- `support/` has what all of these use.

The packages import nothing by themselves, because every imported module adds to the start time of a plugin.
"""
