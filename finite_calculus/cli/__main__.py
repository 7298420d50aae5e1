"""`python -m finite_calculus.cli` is the same command."""

from finite_calculus.cli import main

main()
