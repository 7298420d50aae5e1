"""The paired cluster bootstrap and the scores: against scipy, against cases computed by hand."""

import numpy as np
import pytest
from scipy import stats

from finite_calculus.harness.bootstrap import cluster_means, paired_interval
from finite_calculus.harness.metrics import correlation, mean_error, sign_accuracy, top_two_recall


def test_the_interval_is_scipys_percentile_interval_of_the_cluster_means() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(2, 32 * 8))
    clusters = np.repeat(np.arange(32), 8)
    interval = paired_interval(first, second, clusters)
    means = (first - second).reshape(32, 8).mean(1)
    reference = stats.bootstrap(
        (means,), np.mean, n_resamples=5000, method="percentile", rng=np.random.default_rng(981),
        vectorized=True,
    ).confidence_interval  # fmt: skip
    assert (interval.low, interval.high) == pytest.approx(
        (reference.low, reference.high), rel=1e-12
    )
    assert interval.estimate == pytest.approx(means.mean())
    assert interval.clusters == 32


def test_two_clusters_have_three_possible_means_a_quarter_half_and_a_quarter() -> None:
    # Means 0 and 1: resampled means are 0, ½, 1 with probability ¼, ½, ¼.
    first, second = np.array([0.0, 1.0]), np.zeros(2)
    wide = paired_interval(first, second, np.array([0, 1]), coverage=0.95)
    assert (wide.estimate, wide.low, wide.high) == (0.5, 0.0, 1.0)
    narrow = paired_interval(first, second, np.array([0, 1]), coverage=0.4)
    assert (narrow.low, narrow.high) == (0.5, 0.5)


def test_whole_clusters_are_drawn_so_that_repeating_rows_inside_one_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    values, clusters = rng.normal(size=10), np.arange(10)
    once = paired_interval(values, np.zeros(10), clusters)
    again = paired_interval(np.repeat(values, 8), np.zeros(80), np.repeat(clusters, 8))
    assert (again.low, again.high) == pytest.approx((once.low, once.high), rel=1e-12)
    # Rows drawn one by one would give an interval about √8 times too narrow.
    rows = paired_interval(np.repeat(values, 8), np.zeros(80), np.arange(80))
    assert rows.high - rows.low < 0.6 * (once.high - once.low)


def test_clusters_count_once_whatever_their_size_and_order() -> None:
    values = np.array([6.0, 1.0, 2.0, 3.0])
    assert cluster_means(values, np.array([7, 2, 2, 2])).tolist() == [2.0, 6.0]
    interval = paired_interval(values, np.zeros(4), np.array([7, 2, 2, 2]))
    assert interval.estimate == 4.0


def test_equal_differences_and_a_single_cluster_leave_no_width() -> None:
    same = paired_interval(np.full(4, 3.0), np.ones(4), np.arange(4))
    assert (same.estimate, same.low, same.high) == (2.0, 2.0, 2.0)
    assert not same.favours_first
    single = paired_interval(np.array([-1.0, -3.0]), np.zeros(2), np.zeros(2, dtype=int))
    assert (single.low, single.high) == (-2.0, -2.0)
    assert single.favours_first


@pytest.mark.usefixtures("unchecked_shapes")
def test_unpaired_or_empty_input_is_refused() -> None:
    with pytest.raises(ValueError, match="must be paired; got 2 and 3 rows"):
        paired_interval(np.zeros(2), np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="one equal length of at least 1; got 0 and 0"):
        cluster_means(np.zeros(0), np.zeros(0))
    with pytest.raises(ValueError, match="got 3 and 2"):
        cluster_means(np.zeros(3), np.zeros(2))


def test_top_two_recall_by_hand_with_ties_in_span_order() -> None:
    executed = np.array([[5.0, -4.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    assert top_two_recall(executed, executed) == 1.0
    # The first prompt shares one of two; all tied, the second's are spans 0 and 1.
    predicted = np.array([[0.0, -9.0, 8.0, 1.0], [7.0, 6.0, 0.0, 0.0]])
    assert top_two_recall(predicted, executed) == 0.75
    assert top_two_recall(executed, predicted) == 0.75
    with pytest.raises(ValueError, match="Two spans must exist"):
        top_two_recall(np.ones((2, 1)), np.ones((2, 1)))


def test_sign_accuracy_leaves_out_changes_of_exactly_zero() -> None:
    executed = np.array([1.0, -1.0, 0.0, 2.0])
    assert sign_accuracy(np.array([3.0, 3.0, 3.0, 0.0]), executed) == pytest.approx(1 / 3)
    assert sign_accuracy(np.ones(2), np.zeros(2)) is None


def test_errors_and_correlation_by_hand() -> None:
    assert mean_error(np.array([1.0, 2.0]), np.array([2.0, 0.0])) == 1.5
    assert correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])) == pytest.approx(1.0)
    assert correlation(np.ones(3), np.arange(3.0)) is None
