"""The `nri` command: one file per verb, each loading its heavy parts only when it runs.

`main` has the table of verbs, `settings` the global options, `output` prints results, `errors` maps errors to exit
codes, `verbs` has the verbs, `doctor` the checks of `nri doctor`, and `support` the code that verbs share.
"""
