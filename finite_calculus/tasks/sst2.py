"""SST-2 pairs: eight balanced demonstrations and a held-out query; the donor flips the labels.

Sentences come from a folder with `train.tsv` and `dev.tsv` in the usual two columns, or from the
hub's data set at the paper's revision. Only row numbers and hashes are ever kept. The paper gives the
lengths, the balance and the label mapping; order of draws and wording are ours.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from finite_calculus.provenance.digests import digest
from finite_calculus.tasks.pairs import PairText

REPOSITORY, REVISION = "stanfordnlp/sst2", "8d51e7e4887a4caaa95b3fbebbf53c0490b58bbb"
SPLITS = ("train", "validation")
FILES = {"train": "train.tsv", "validation": "dev.tsv"}
# The paper's limits, in characters: demonstrations, queries.
DEMONSTRATION, QUERY = (20, 160), (20, 320)
PER_CLASS = 4
OPENING = "Label each review. A means negative, B means positive. Answer with A or B only.\n"
LABEL = {0: "A", 1: "B"}


@dataclass(frozen=True)
class Split:
    """Rows of one split in file order, and the sha256 of the file."""

    sentences: tuple[str, ...]
    labels: tuple[int, ...]
    sha256: str


@dataclass(frozen=True)
class Sst2:
    """Both splits, and what they were read from."""

    train: Split
    validation: Split
    origin: str

    def manifest(self) -> dict[str, str]:
        """Origin and hashes."""
        return {
            "origin": self.origin,
            "train_sha256": self.train.sha256,
            "validation_sha256": self.validation.sha256,
        }


def read_sst2(folder: Path | None) -> Sst2:
    """Both splits from a folder of TSV files, or from the hub where no folder is given."""
    if folder is None:
        return _from_hub()
    train, validation = (_from_tsv(folder / FILES[split]) for split in SPLITS)
    return Sst2(train, validation, "train.tsv and dev.tsv")


def sst2_pairs(data: Sst2, pairs: int, seed: int) -> list[PairText]:
    """The first pairs of a seed: pair u is the same however many are asked for.

    Queries are drawn without reuse; demonstrations, four of each class, anew for every pair, none of
    them equal to another sentence of the prompt once case and spaces are ignored.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 1]))
    queries = rng.permutation(fitting_rows(data.validation, QUERY))
    if pairs > len(queries):
        raise ValueError(f"`pairs` must not exceed the {len(queries)} queries; got {pairs}.")
    pool = fitting_rows(data.train, DEMONSTRATION)
    return [_pair(data, pool, u, int(queries[u]), seed) for u in range(pairs)]


def _pair(data: Sst2, pool: np.ndarray, u: int, query: int, seed: int) -> PairText:
    rng = np.random.default_rng(np.random.SeedSequence([seed, 1, u]))
    rows = _demonstrations(data, rng.permutation(pool), query)
    rng.shuffle(rows)
    flipped = {"A": "B", "B": "A"}
    labels = [LABEL[data.train.labels[row]] for row in rows]
    return PairText(
        task="sst2",
        pair=u,
        opening=OPENING,
        records=tuple(review(data, row, label) for row, label in zip(rows, labels, strict=True)),
        donor_records=tuple(
            review(data, row, flipped[label]) for row, label in zip(rows, labels, strict=True)
        ),
        question=question(data, query),
        answer=LABEL[data.validation.labels[query]],
        source={"validation_row": query, "train_rows": rows},
    )


def review(data: Sst2, row: int, label: str) -> str:
    """One demonstration from the training split under a label."""
    return f"Review: {data.train.sentences[row]}\nLabel: {label}\n"


def question(data: Sst2, query: int) -> str:
    """The sentence of the validation split whose label is asked for."""
    return f"Review: {data.validation.sentences[query]}\nLabel:"


def _demonstrations(data: Sst2, order: np.ndarray, query: int) -> list[int]:
    """The first rows in the given order that fill both classes without a repeated sentence."""
    texts = {normal_text(data.validation.sentences[query])}
    classes: dict[int, list[int]] = {0: [], 1: []}
    for row in order.tolist():
        own_class, text = classes[data.train.labels[row]], normal_text(data.train.sentences[row])
        if len(own_class) < PER_CLASS and text not in texts:
            own_class.append(row)
            texts.add(text)
        if all(len(rows) == PER_CLASS for rows in classes.values()):
            return classes[0] + classes[1]
    raise ValueError(
        f"The training split must hold {PER_CLASS} distinct sentences of each class of "
        f"{DEMONSTRATION[0]} to {DEMONSTRATION[1]} characters; it does not."
    )


def fitting_rows(split: Split, limits: tuple[int, int]) -> np.ndarray:
    """Rows whose sentence has a length within the limits, in file order."""
    low, high = limits
    return np.array([n for n, text in enumerate(split.sentences) if low <= len(text) <= high])


def normal_text(text: str) -> str:
    """A sentence without case and repeated spaces: two that are equal so count as one."""
    return " ".join(text.lower().split())


def _from_tsv(path: Path) -> Split:
    if not path.is_file():
        raise ValueError(
            f"`data` must be a folder with {' and '.join(FILES.values())}; {path.name} is not there."
        )
    blob = path.read_bytes()
    lines = blob.decode("utf-8").splitlines()
    if not lines or lines[0].split("\t") != ["sentence", "label"]:
        raise ValueError(
            f"{path.name} must begin with the header sentence, tab, label; it does not."
        )
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        sentence, _, label = line.rpartition("\t")
        if not sentence.strip() or label not in ("0", "1"):
            raise ValueError(f"{path.name}, line {number}: must be a sentence, a tab and 0 or 1.")
        rows.append((sentence.strip(), int(label)))
    return Split(tuple(text for text, _ in rows), tuple(label for _, label in rows), digest(blob))


def _from_hub() -> Sst2:
    from huggingface_hub import hf_hub_download  # optional: only this path needs a network

    splits = []
    for split in SPLITS:
        file = f"data/{split}-00000-of-00001.parquet"
        try:
            path = hf_hub_download(REPOSITORY, file, repo_type="dataset", revision=REVISION)
        except (OSError, RuntimeError) as error:
            raise ValueError(
                f"SST-2 is {REPOSITORY} at revision {REVISION} on the hub, which could not be read "
                f"({type(error).__name__}). Pass a folder with train.tsv and dev.tsv as `data`, or "
                f"choose the task retrieval."
            ) from error
        table = pq.read_table(path)
        sentences = tuple(text.strip() for text in table["sentence"].to_pylist())
        labels = tuple(table["label"].to_pylist())
        splits.append(Split(sentences, labels, digest(Path(path).read_bytes())))
    return Sst2(splits[0], splits[1], f"{REPOSITORY} at {REVISION}")
