"""A plugin as a process: options, connecting and reconnecting, configuration changes, signals and exit codes."""
