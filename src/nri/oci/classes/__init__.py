"""Block-I/O and RDT classes, resolved to settings of an OCI spec."""
