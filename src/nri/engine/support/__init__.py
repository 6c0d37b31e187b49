"""Helpers of the engine that know nothing of pods, containers or images: errors, other programs, system calls."""
