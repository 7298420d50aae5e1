"""The tables of the regression study: trained models, their validations, and diagnostic queries."""

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa

from finite_calculus.harness import Row

Small = Annotated[int, pa.int32()]
CONTROL = "control"


@dataclass(frozen=True)
class Model(Row):
    """One trained block, or the constructed control, against the calibrated learner on the test bank.

    `test_mse` is to the targets, `reference_mse` that of the learner at the model's own rate, and
    `disagreement_mse` between the two predictions.
    """

    architecture: str
    seed: Small
    step: Small
    validation_mse: float
    rate: float
    test_mse: float
    reference_mse: float
    disagreement_mse: float


@dataclass(frozen=True)
class Validation(Row):
    """The validation error of a model in training, in its own float32."""

    architecture: str
    seed: Small
    step: Small
    mse: float


@dataclass(frozen=True)
class Direction(Row):
    """Directions in input space at one diagnostic query: cosines with the learner's g_D, and with each other.

    `jacobian` is ∇f of the trained model; `original` and `mean` are the exact effective-weight steps of
    both heads as they act on the prediction, in the original-score and the mean-key gauge.
    """

    architecture: str
    seed: Small
    episode: Small
    query: Small
    prediction: float
    reference: float
    jacobian: float
    original: float
    mean: float
    original_jacobian: float
    mean_jacobian: float
