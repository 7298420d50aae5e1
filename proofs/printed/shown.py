"""Which of the paper's tables belongs beside which table of a study, and what its columns are.

The figures are the paper's, of its own models and machines, and stay as they are printed.
"""

from dataclasses import dataclass

from proofs.printed.tables import TABLES, Table, table

# Of its running text (sec:reconstruction): the layer, the rows, and what the paper gives of their errors.
RECONSTRUCTION = table("0.5B 23 240 9.8e-30 7.01e-14 1.4e-5", names=1)


@dataclass(frozen=True)
class Shown:
    """A printed table by the paper's label, the table of a study that it stands beside, and of what it is."""

    study: str
    table: str
    label: str
    columns: tuple[str, ...]
    subject: str

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Names and cells, as printed."""
        printed: Table = (
            RECONSTRUCTION if self.label == "sec:reconstruction" else TABLES[self.label]
        )
        return tuple((*names, *cells) for names, cells in printed.items())


_SMALL, _LARGE, _BOTH = "Qwen2.5-0.5B", "Qwen2.5-1.5B", "Qwen2.5-0.5B and 1.5B"
_ENDS = ("low", "high")
SHOWN = (
    Shown("joint-kv", "coverage", "tab:jointcoverage",
          ("model", "task", "layer", "zero", "first order", "separate", "quadratic", "exact joint"), _BOTH),
    Shown("joint-kv", "ranking", "tab:jointattribution",
          ("predictor", "MAE", "top-two recall", "sign accuracy"), f"{_LARGE}, layer 21, initial design"),
    Shown("joint-kv", "paired", "tab:jointpaired",
          ("model", "task", "layer", "exact − separate", *_ENDS, "exact − quadratic", *_ENDS), _BOTH),
    Shown("joint-kv", "interaction", "tab:jointfactorial",
          ("model", "task", "layer", "exact MAE", "quadratic MAE", "exact r", "mean |I|"), _BOTH),
    Shown("positional", "prediction", "tab:phaseprediction",
          ("task", "finite", "Jacobian", "zero", "below zero", *_ENDS), _LARGE),
    Shown("positional", "strata", "tab:allbandstrata",
          ("task", "band", "shift", "finite", "Jacobian", "zero"), _LARGE),
    Shown("positional", "angles", "tab:angles", ("band", "shift 16", "shift 128"), _LARGE),
    Shown("positional", "interaction", "tab:bandinteraction",
          ("task", "layer", "shift 16", *_ENDS, "shift 128", *_ENDS), _LARGE),
    Shown("positional", "reordering", "tab:phasecontent",
          ("task", "layer", "phase", "context", "interaction"), _LARGE),
    Shown("positional", "deletion", "tab:deletionattribution",
          ("task", "layer", "finite", "Jacobian", "attention", "value norm", "sign, finite"), _LARGE),
    Shown("positional", "repair", "tab:precisionrepair",
          ("task", "bits", "exact, 1 entry", "second order, 1", "exact, 4 entries", "second order, 4"),
          f"{_LARGE}; exact re-scored after each entry, second order scored once"),
    Shown("regression", "alignment", "tab:gdregression",
          ("architecture", "seed 0", "seed 1", "seed 2", "disagreement MSE"), "trained models"),
    Shown("reconstruction", "float64", "sec:reconstruction",
          ("model", "layer", "rows", "float64 MSE", "native MSE", "largest difference"), _SMALL),
    Shown("runtime", "runtime", "tab:jointruntimes",
          ("case", "N", "C", "dense, R=1", "sparse, R=1", "dense, R=3", "sparse, R=3",
           "dense/sparse, R=1", "dense/sparse, R=3"), "milliseconds on an A100"),
)  # fmt: skip


def shown_beside(study: str) -> dict[str, Shown]:
    """The paper's tables for a study, by the table that each stands beside."""
    return {each.table: each for each in SHOWN if each.study == study}
