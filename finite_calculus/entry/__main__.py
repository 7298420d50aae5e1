"""`python -m finite_calculus.entry` is the command `finite-calculus`."""

from finite_calculus.entry import main

main()
