"""NUMA memory policies by classes and annotations."""
