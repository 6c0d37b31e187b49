"""A trial of plugins on pods, for `nri try`.

`plugins` reads which plugins a command line names, `trial` takes pods through their start, `outcome` is the result.
"""
