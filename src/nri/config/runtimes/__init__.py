"""The NRI settings of the container runtimes on a machine, read from their own configuration files.

    reading = containerd.read("/", "2.1.9")
    if reading.nri is not None and reading.nri.enabled:
        connect(reading.nri.socket_path)

Files are read below a root folder. A reading has the settings in force, or None if the runtime does not exist, and
remarks on all mistakes that the runtime would refuse or ignore, each with file, line and key.
"""
