"""The Container Device Interface: devices by name, as vendors describe them in files, put into an OCI spec.

What the CDI library does, without watching anything: files are looked for again when they are asked for and have
changed. Modules: `devices` (the files of a machine, conflicts, injection), `file` (one file, read and checked),
`names` (``vendor.com/class=name``), `versions` (what each version of the format has), `edits` (into a spec),
`host_nodes` (a device node as this host has it).
"""
