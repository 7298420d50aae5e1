"""The comparisons: for every public function of the core, its reference and its inputs."""

from proofs.numeric.bank_comparisons import BANK, CACHE
from proofs.numeric.comparison import ReferenceComparison
from proofs.numeric.head_comparisons import AFFINE, ROTARY

COMPARISONS: dict[str, ReferenceComparison] = {
    comparison.function: comparison for comparison in (*BANK, *ROTARY, *CACHE, *AFFINE)
}
