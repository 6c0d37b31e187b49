"""TCNetworkQoS on the machine: the node's bandwidth shared out among its pods, by the programs tc, iptables and ipset.

`programs` runs them, `plan` says what there is to be (pure), `shaper` makes it so, `pods` is the way there from pods
and rules.
"""
