"""rubik's services that have rounds: each samples, asks its decision, and says what to write.

Reading order: `service`, what they share; then one module for each. A new one is a module here and a row in
`nri.agent.rubik.profile`.
"""
