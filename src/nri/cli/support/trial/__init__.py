"""A trial of plugins on pods, for `nri try`.

`contestants` are the plugins, `trial` takes pods through their start, `outcome` is what came of it. `watching` sees
what plugins do beside their answers; `programs` runs a plugin that is a program of its own.
"""
