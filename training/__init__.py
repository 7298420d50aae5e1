"""How the embedded checkpoint was trained: `python -m training --out DIR` (see README.md)."""
