"""The node agent: one profile of hooks and strategies over several transports (NRI, CRI proxy, hooks, standalone).

Rules come from files or an apiserver (`rules`), pods as API objects from one of several sources (`pods`). A transport
asks the profile's hooks through `decisions`; `executor` writes what no message of a runtime can express.
"""
