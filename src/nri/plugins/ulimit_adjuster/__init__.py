"""Process resource limits by annotations of pods."""
