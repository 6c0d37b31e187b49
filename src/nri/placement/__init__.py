"""Where containers run: the CPUs and memory nodes of each container. The decisions are pure; plugins carry them out.

A policy gets the machine and the configuration as values and the containers one after the other, and returns the pins
of each container that changes. A policy does not read files, wait or ask for the time; `plugin` and the modules that
it imports do. Each deviation from the policies topology-aware and balloons of nri-plugins is an attribute of
`choices.Choices`. Neither policy imports the other.
"""
