"""`python -m finite_calculus` is the command `finite-calculus`."""

# Importing it runs it. The call itself stands there because files here are the calculus and are mutated.
from finite_calculus.entry import __main__ as __main__
