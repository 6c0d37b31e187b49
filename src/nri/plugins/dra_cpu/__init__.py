"""A driver of Kubernetes' dynamic resource allocation (DRA) for CPUs."""
