"""The Container Device Interface: devices by name, as vendors describe them in files, put into an OCI spec.

As the CDI library does, without watching anything: files are looked for again when they are asked for and have
changed. Modules: `devices` (the files of a machine, conflicts, injection), `file` (one file: its format, its
versions, its names ``vendor.com/class=name``, read and checked), `edits` (into a spec, with device nodes as this host
has them).
"""
