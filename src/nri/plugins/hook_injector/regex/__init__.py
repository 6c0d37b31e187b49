"""Regular expressions in Go's syntax, in linear time: those of hooks.d files are written for Go programs.

Next: `characters`, `syntax`, `program`, `pattern`, each on top of the one before; the last one has `Pattern`.
"""
