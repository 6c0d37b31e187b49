"""Plugins that are ready to run, one folder each: `plugin` is the plugin, its README what it does for whom.

Rules: a plugin here is an ordinary `nri.Plugin`, run by `nri run NAME`, `nri enable NAME --idx NN` or
`python -m nri.plugins.NAME.plugin`. It is thin: decisions that others may use are in other packages, and it imports
only what it uses, because each start pays for that. Flags, annotations and keys of the configuration are those of the
Go plugin of the same name. They are registered as entry points of the group `nri.plugins` (pyproject.toml), where other
distributions can add theirs. Next: `template`, the smallest one.
"""
