"""The strategies of Koordinator's QoS manager: samples in, what is to be set or evicted out; a timer calls them."""
