"""Run plugins of the protocol 0.1.0 under the current NRI, and a skeleton for such plugins."""
