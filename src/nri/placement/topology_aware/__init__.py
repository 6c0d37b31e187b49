"""The policy topology-aware: a tree of pools that follows the machine's topology; each container has its best pool."""
