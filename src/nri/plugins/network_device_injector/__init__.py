"""Move network devices of the host to pods that request them."""
