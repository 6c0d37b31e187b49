"""Nodes: user-mode Linux kernels over this machine's root directory, with cgroup v2, and with systemd if asked for."""
