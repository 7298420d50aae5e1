"""The second program: it re-checks certificates, and shares with the prover only the language."""

from proofs.checker.certificates import recheck

__all__ = ["recheck"]
