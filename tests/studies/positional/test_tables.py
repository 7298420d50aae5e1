"""Statistics and tables of the positional study, against numbers computed by hand or by scipy."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from finite_calculus.harness import Records, Tables
from finite_calculus.studies.positional import PositionalSettings, rows
from finite_calculus.studies.positional.calibration import decide_policy
from finite_calculus.studies.positional.edit_tables import edit_tables
from finite_calculus.studies.positional.part_tables import (
    deletion_table,
    interaction_table,
    reordering_table,
    repair_tables,
)
from finite_calculus.studies.positional.repairs import METHODS
from finite_calculus.studies.positional.settings import depths
from finite_calculus.studies.positional.statistics import Bootstrap, set_mean, set_sign_accuracy

BOOTSTRAP = Bootstrap(200, 0.95, 981)
RNG = np.random.default_rng(5)


def edit(number: int, **changes: Any) -> rows.PositionalEdit:
    values: dict[str, Any] = {
        "task": "ordered", "set": number, "variant": 0, "layer": 1, "shift": 16, "band": "fast",
        "tokens": 90, "edited": 40, "answer": "A", "preferred": "A", "control": 1.0,
        "path_drift": 0.0, "effect": 0.3, "predicted_finite": 0.2, "predicted_jacobian": -0.1,
        "predicted_second": 0.28, "dense": 0.2, "local_executed": 0.2, "local_predicted": 0.2,
        "local_bound": 1e-6,
        "angle": 16.0, "kl": 0.01, "tv": 0.05, "softmax_gap": 0.1, "rotary_part": 0.5,
        "jacobian_gap": 0.3, "jacobian_bound": 1.0,
    }  # fmt: skip
    return rows.PositionalEdit(**{**values, **changes})


def lines(tables: Any, name: str) -> list[dict[str, Any]]:
    (table,) = [table for table in tables if table.name == name]
    return [dict(zip(table.columns, line, strict=True)) for line in table.rows]


def test_a_ratio_is_scipys_paired_percentile_interval():
    first, second = RNG.random(30), RNG.random(30) + 1
    clusters = [f"{n:02d}" for n in range(30)]
    ours = Bootstrap(4000, 0.9, 3).ratio(first.tolist(), second.tolist(), clusters)
    theirs = stats.bootstrap(
        (first, second), lambda a, b, axis: a.mean(axis) / b.mean(axis), paired=True,
        vectorized=True, confidence_level=0.9, method="percentile", n_resamples=4000, rng=3,
    ).confidence_interval  # fmt: skip
    assert ours.estimate == first.mean() / second.mean()
    width = theirs.high - theirs.low
    assert abs(ours.low - theirs.low) + abs(ours.high - theirs.high) < 0.1 * width


def test_sets_weigh_the_same_however_many_edits_they_have():
    assert set_mean([1.0, 1.0, 1.0, 5.0], ["a", "a", "a", "b"]) == 3
    assert (
        set_sign_accuracy([1.0, 1.0, -1.0, 1.0], [1.0, 0.0, 1.0, 1.0], ["a", "a", "b", "b"]) == 75
    )
    assert set_sign_accuracy([1.0], [0.0], ["a"]) is None


def test_errors_reductions_and_large_effects_are_those_of_the_rows():
    last = edit(1, effect=-0.4, predicted_second=None)
    edits = [edit(0), edit(0, effect=0.05, predicted_finite=0.05), last]
    tables = list(edit_tables(edits, BOOTSTRAP))
    zero, jacobian = lines(tables, "prediction")
    assert zero["finite MAE"] == pytest.approx(((0.1 + 0) / 2 + 0.6) / 2)
    assert zero["zero MAE"] == pytest.approx(((0.3 + 0.05) / 2 + 0.4) / 2)
    assert zero["Jacobian MAE"] == pytest.approx(((0.4 + 0.15) / 2 + 0.3) / 2)
    for line, other in ((zero, "zero MAE"), (jacobian, "Jacobian MAE")):
        assert line["reduction %"] == pytest.approx(100 * (1 - line["finite MAE"] / line[other]))
        assert line["difference"] == pytest.approx(line["finite MAE"] - line[other])
    (large,) = lines(tables, "large")
    assert (large["edits"], large["sets"]) == (2, 2)
    assert large["finite MAE"] == pytest.approx((0.1 + 0.6) / 2)
    (second,) = lines(tables, "second-order")
    known = [row for row in edits if row.predicted_second is not None]
    assert second["edits"] == len(known) < len(edits)
    errors = [
        np.mean([abs(row.effect - getattr(row, f"predicted_{name}")) for row in known])
        for name in ("finite", "second")
    ]
    assert [second["finite MAE"], second["second MAE"]] == pytest.approx(errors)
    assert second["below finite %"] == pytest.approx(100 * (1 - errors[1] / errors[0]))
    finite, tangent = lines(tables, "signs")
    assert finite["sign accuracy %"] == 50
    assert tangent["sign accuracy %"] == 50
    assert finite["Pearson r"] == pytest.approx(
        stats.pearsonr([0.2, 0.05, 0.2], [0.3, 0.05, -0.4]).statistic
    )
    (certificate,) = lines(tables, "certificates")
    assert certificate["tightness"] == 0.3
    assert certificate["softmax tightness"] == 0.2
    assert certificate["certified signs %"] == 0


def test_no_large_effect_leaves_a_line_without_numbers():
    (large,) = lines(edit_tables([edit(0, effect=0.01)], BOOTSTRAP), "large")
    assert large["edits"] == 0
    assert large["finite MAE"] is None


def test_answers_are_conditional_on_the_two_labels():
    edits = [edit(0), edit(1, answer="B", control=0.5)]
    (line,) = lines(edit_tables(edits, BOOTSTRAP), "answers")

    def distribution(margin: float) -> np.ndarray:
        return np.array([1 / (1 + np.exp(-margin)), 1 / (1 + np.exp(margin))])

    before = [-np.log(distribution(1.0)[0]), -np.log(distribution(0.5)[1])]
    after = [-np.log(distribution(1.3)[0]), -np.log(distribution(0.8)[1])]
    finite = [-np.log(distribution(1.2)[0]), -np.log(distribution(0.7)[1])]
    assert line["NLL"] == pytest.approx(np.mean(before))
    assert line["change of NLL"] == pytest.approx(np.mean(np.subtract(after, before)))
    assert line["finite NLL error"] == pytest.approx(np.mean(np.abs(np.subtract(finite, after))))
    for name, moved in (("unedited", 0.0), ("finite", 0.2), ("Jacobian", -0.1)):
        kl = [stats.entropy(distribution(m + 0.3), distribution(m + moved)) for m in (1.0, 0.5)]
        assert line[f"KL executed to {name}"] == pytest.approx(np.mean(kl))


def test_deletions_are_ranked_as_scipy_ranks_them():
    def deletion(number: int, variant: int, span: int) -> rows.SpanDeletion:
        drawn = RNG.normal(size=5)
        return rows.SpanDeletion("ordered", number, variant, 0, span, *drawn, 0.0, 0.0, 1.0)

    listed = [deletion(n, v, s) for n in range(3) for v in range(2) for s in range(8)]
    # Attention is equal in one prompt, which then has no correlation.
    flat = [rows.SpanDeletion(**{**vars(r), "attention": 1.0}) for r in listed[:8]] + listed[8:]
    table = deletion_table(flat)
    (line,) = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    for name, column, skipped in (("finite", "predicted_finite", 0), ("attention", "attention", 1)):
        values: dict[int, list[float]] = {}
        for start in range(8 * skipped, len(flat), 8):
            part = flat[start : start + 8]
            sizes = [abs(getattr(row, column)) for row in part]
            rho = stats.spearmanr(sizes, [abs(row.effect) for row in part]).statistic
            values.setdefault(part[0].set, []).append(rho)
        assert line[name] == pytest.approx(np.mean([np.mean(each) for each in values.values()]))


def test_pooled_projections_are_ratios_of_sums_and_sum_to_one():
    parts = RNG.normal(size=(6, 3))
    listed = [
        rows.Reordering("ordered", n // 3, n % 3 + 1, 0, *part, sum(part))
        for n, part in enumerate(parts.tolist())
    ]
    table = reordering_table(listed, BOOTSTRAP)
    (line,) = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert line["phase"] == pytest.approx(parts[:, 0].sum() / parts.sum())
    assert line["sum"] == pytest.approx(1)


def test_interactions_are_means_of_ratios():
    listed = [
        rows.BandInteraction("ordered", n, 0, 0, 16, closed, closed, joint, 0.0, 1e-9)
        for n, (closed, joint) in enumerate([(1.0, 4.0), (3.0, 4.0)])
    ]
    table = interaction_table(listed, BOOTSTRAP)
    assert table.rows[0][3] == table.rows[0][6] == 50


def test_repairs_are_contrasted_by_set_and_the_matched_control_is_there():
    listed = [
        rows.Repair("ordered", n, 1, 2, method, rescored, 1, n + 0.1 * k, 1.0, 0.2, 0.5)
        for k, (method, rescored) in enumerate(METHODS)
        for n in (1, 0)
    ]
    tables = list(repair_tables(listed, BOOTSTRAP))
    errors = {(r["method"], r["scores"]): r["relative RMSE"] for r in lines(tables, "repair")}
    assert errors["exact", "after each"] == 0.5
    contrasts = {(r["against"], r["scores"]): r for r in lines(tables, "repair-contrasts")}
    assert contrasts["second-order", "after each"]["difference"] == pytest.approx(-0.2)
    assert contrasts["second-order", "after each"]["below zero"] == "yes"
    assert contrasts["exact", "once"]["difference"] == pytest.approx(-0.1)
    assert len(contrasts) == len(METHODS) - 1


def test_the_policy_keeps_the_first_layer_and_the_two_with_the_largest_effects():
    effects = {0: 0.1, 7: 0.2, 14: 0.9, 21: 0.5, 27: 0.3}
    repairs = {0: 0.9, 7: 0.4, 14: 0.5, 21: 0.6, 27: 0.7}
    listed = [
        rows.Calibration("ordered", n, d, effects[d], 9.0 - d, 1.0, *[repairs[d]] * 4)
        for n in range(2)
        for d in effects
    ]

    class Listed(Tables):
        def rows(self, kind: Any) -> list[Any]:
            return listed

    assert decide_policy(Records(Listed({}, {}), {})) == {
        "depths": [0, 7, 14, 21, 27],
        "layers": [0, 14, 21],
        "deletion_layers": [0, 14],
        "repair_layer": 7,
    }


def test_depths_are_the_papers_for_28_layers():
    assert depths(28) == (0, 7, 14, 21, 27)
    assert depths(3) == (0, 1, 2)


def test_settings_follow_the_model_and_the_tasks():
    ours = PositionalSettings.complete({"model": "embedded"}, 4)
    assert ours.tasks == ours.families == ("corrupt", "ordered", "retrieval")
    assert ours.folders == ()
    other = PositionalSettings.complete({"model": "smollm2-135m-instruct", "tasks": ("sst2",)}, 30)
    assert other.families == ("decisive", "sst2")
    assert other.folders == ("data",)
    with pytest.raises(ValueError, match=r"`shifts` must name each one once; got \(16, 16\)"):
        PositionalSettings.complete({"model": "embedded", "shifts": (16, 16)}, 4)
