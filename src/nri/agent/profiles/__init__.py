"""The profiles, a package each. Nothing else in the agent imports one: `nri.agent.profile` finds it by its name."""
