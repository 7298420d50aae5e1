"""Machine-checked counterparts of the paper's statements.

`topics` states them, one file per section; `prover` proves them, `coq` once more; `numeric` holds the
code to the `references`; `printed` holds the paper's figures to one another. The catalogue collects the
entries of the topics and the ledger says what stands behind each.
"""
