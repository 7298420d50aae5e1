"""Code mutation of the core: small changes to its source, each of which some test must notice.

`mutants` finds the changes, `patch` puts one into a running process, `session` holds the tests against
each, `journal` keeps the verdicts, and `equivalent.toml` lists the changes that no test can notice,
with the reason. Run it with `python -m tests.mutation`.

mutmut and cosmic-ray start pytest anew for every mutant, which costs seconds of importing torch here,
and know nothing of a reviewed list that must not go stale. This runner imports and collects once, and
forks: a mutant costs the tests that execute its line, fastest first, until one fails.
"""
