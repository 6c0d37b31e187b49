"""The default validator as a plugin, for runtimes without a built-in validator."""
