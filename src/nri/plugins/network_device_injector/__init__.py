"""Network devices of the host for pods that ask for them."""
