"""Intel RDT (cache and memory bandwidth) by annotations of pods."""
