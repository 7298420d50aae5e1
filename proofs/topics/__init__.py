"""The paper's statements, one file per section; each has the name of its code in `finite_calculus/`."""
