"""The Container Device Interface: resolve devices by name from vendors' files, and inject them into an OCI spec."""
