"""Native Hugging Face models: capture a baseline, predict edits from it, execute them, restore.

Importing it imports transformers, which `import finite_calculus` does not. Beside it only `checkpoints`
imports transformers by itself; search, cache and studies do so through the two.
"""

from finite_calculus.models.attach import Instrument as Instrument, attach as attach
from finite_calculus.models.bounds import (
    LocalError as LocalError,
    local_error as local_error,
    output_error as output_error,
    write_error as write_error,
)
from finite_calculus.models.capture import Capture as Capture
from finite_calculus.models.comparison import (
    Agreement as Agreement,
    LocalCheck as LocalCheck,
    LocalComparison as LocalComparison,
    compare_all as compare_all,
    compare_locally as compare_locally,
    local_check as local_check,
)
from finite_calculus.models.curvature import Curvature as Curvature, SecondOrder as SecondOrder
from finite_calculus.models.edits import (
    Delete as Delete,
    Edit as Edit,
    KeyShift as KeyShift,
    Odds as Odds,
    Quantise as Quantise,
    QueryEdit as QueryEdit,
    Replace as Replace,
    Restore as Restore,
    ScaleValues as ScaleValues,
    edited_bank as edited_bank,
)
from finite_calculus.models.features import (
    head_features as head_features,
    head_weights as head_weights,
)
from finite_calculus.models.floor import Floor as Floor
from finite_calculus.models.layer import LayerBank as LayerBank, LayerCapture as LayerCapture
from finite_calculus.models.margins import Margin as Margin
from finite_calculus.models.objectives import (
    Divergence as Divergence,
    LogProbability as LogProbability,
    Objective as Objective,
    OfLogits as OfLogits,
)
from finite_calculus.models.outcomes import Execution as Execution, Outcome as Outcome
from finite_calculus.models.passage import (
    Passage as Passage,
    PassagePrediction as PassagePrediction,
)
from finite_calculus.models.passage_runs import PassageOutcome as PassageOutcome
from finite_calculus.models.predict import (
    Prediction as Prediction,
    increments as increments,
    predict as predict,
)
from finite_calculus.models.probe import ProbedRotary as ProbedRotary, probe_rotary as probe_rotary
from finite_calculus.models.several import (
    SeveralOutcome as SeveralOutcome,
    SeveralPrediction as SeveralPrediction,
    predict_several as predict_several,
)
from finite_calculus.models.spans import check_donor as check_donor, span as span
from finite_calculus.models.storage import (
    load_capture as load_capture,
    save_capture as save_capture,
)
from finite_calculus.models.support import (
    Site as Site,
    Support as Support,
    UnsupportedModelError as UnsupportedModelError,
    supported as supported,
)
