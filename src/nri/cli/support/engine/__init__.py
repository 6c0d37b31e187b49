"""The work behind `nri engine` and `nri config`: their common options, the engine's process, its systemd unit."""
