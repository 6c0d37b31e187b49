"""Tests in user-mode nodes, which have cgroup v2 and systemd, also where this machine has neither."""
