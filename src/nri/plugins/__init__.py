"""Bundled plugins, one folder each: `plugin` has the class, README.md its documentation.

A bundled plugin accepts the flags, annotations and configuration keys of the Go plugin of the same name. It is
registered as an entry point of the group `nri.plugins` in pyproject.toml. A plugin imports only the modules that it
uses, because each import delays its start.
"""
