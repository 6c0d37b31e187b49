"""The default validator as a plugin, for runtimes that do not have it built in."""
