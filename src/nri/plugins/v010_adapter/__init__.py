"""Run plugins of the protocol 0.1.0 under today's NRI, and a skeleton for such plugins."""
