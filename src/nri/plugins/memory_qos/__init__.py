"""Values of cgroup v2's memory controller by classes and annotations."""
