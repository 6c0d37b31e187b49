"""One connection of a plugin to a runtime.

`session` is its life, `service` answers the runtime's requests; `subscription`, `settings` and `synchronize`
are parts of that. `background` is the work beside it, `reporting` tells a reporter what happens.
"""
