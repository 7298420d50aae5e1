"""What decides the weights of a training, and where its curriculum is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """All that decides the weights, apart from library versions and the machine's arithmetic."""

    seed: int = 5
    steps: int = 1500
    batch: int = 64
    part: int = 16
    rate: float = 2e-3
    warmup: int = 100
    final_rate: float = 0.02
    weight_decay: float = 0.05
    clip: float = 1.0
    text_weight: float = 0.05
    layers: int = 4
    width: int = 96
    hidden: int = 192
    heads: int = 4
    groups: int = 2
    theta: float = 1e6
    context: int = 512
    # Records per prompt, stage by stage; a stage ends when its answers are right this often.
    records: tuple[int, ...] = (2, 4, 8)
    pass_mark: float = 0.97
    # Where the first layer's heads look at first, and how sharply.
    distances: tuple[int, ...] = (2, 4, 9, 1)
    pointing: float = 8.0
    written: float = 0.15
    matching: float = 0.35
    spread: float = 0.05


@dataclass
class TrainingProgress:
    """Where the curriculum is; all of it is saved, so that a resumed run is the unbroken one."""

    step: int = 0
    stage: int = 0
    stage_start: int = 0
    accuracy: float = 0.0
    seconds: float = 0.0
