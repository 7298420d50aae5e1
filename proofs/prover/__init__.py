"""What proves a statement: symbolic kernels, exact models and mutants that a proof must reject."""
