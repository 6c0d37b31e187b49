"""The NRI settings of container runtimes on this machine, read from their own configuration files.

    reading = containerd.read("/", version="2.1.9")
    if reading.nri is not None and reading.nri.enabled:
        connect(reading.nri.socket_path)

Rules: files are read through a root path and never changed; nothing raises for what a file holds. A reading is the
settings that take effect (None for a runtime that is not there) and remarks on all that the runtime would refuse or
ignore, each with its file, line and key, for others to judge and to word.

`containerd`, `crio` and `isulad` know each runtime's files and keys, `reading` has the values that they give,
`config_file` the reading of files and single keys.
"""
