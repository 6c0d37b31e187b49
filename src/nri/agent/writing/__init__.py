"""Two parts of the executor: writes that wait for their cgroup, and core scheduling of containers.

Next: `pending`, then `cookies`.
"""
