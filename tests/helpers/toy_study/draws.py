"""What the toy study draws."""

import numpy as np


def draw(seed: int, count: int) -> np.ndarray:
    """Numbers of the unit interval."""
    return np.random.default_rng(seed).random(count)
