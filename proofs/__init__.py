"""Machine-checked counterparts of the paper's statements, one file per part of the paper."""
