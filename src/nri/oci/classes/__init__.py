"""Classes of block I/O and of RDT: names that plugins give, and what the machine's configuration makes of them.

`blockio` reads goresctrl's format and looks at the machine's block devices; `rdt` has names of resctrl's groups.
"""
