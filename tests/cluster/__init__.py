"""A Kubernetes cluster of user-mode nodes: one with the engine of this project, one with containerd."""
