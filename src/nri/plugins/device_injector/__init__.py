"""Devices, mounts, scheduling, sysctls and more by annotations of pods."""
