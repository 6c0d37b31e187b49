"""The `nri` command: one file per verb, each loading its heavy parts only when it runs.

`main` has the table of verbs, `settings` the global options, `output` and `errors` how verbs speak; `verbs` are thin,
`doctor` is the judgement behind `nri doctor`, and `support` is shared by verbs.
"""
