"""Where containers run: which CPUs and memory nodes each gets. The decisions are pure; plugins carry them out.

Rules of this package: a policy gets machine and configuration as values and containers one after the other, and
returns the pins of each container that changes. It does not read, wait or ask for the time; `plugin` and the modules
below it do. Where the originals (nri-plugins' topology-aware and balloons) surprise their users, one attribute of
`choices.Choices` says so. Neither policy imports the other.
"""
