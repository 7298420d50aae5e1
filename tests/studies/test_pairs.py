"""Prompts of the joint study: the paper's printed example, SST-2 draws, and every tokenisation check."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from finite_calculus.provenance.digests import canonical
from finite_calculus.studies.joint_kv import joint_settings
from finite_calculus.studies.joint_kv.plan import plan_pairs
from finite_calculus.tasks import sst2
from finite_calculus.tasks.pairs import PairText, retrieval_text, tokenise

FILLER = "a plain sentence of about thirty characters, number"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A made-up data set in the usual two columns."""
    for name, rows in (("train.tsv", 40), ("dev.tsv", 12)):
        lines = [f"{FILLER} {name[0]}{n:02d} \t{n % 2}" for n in range(rows)]
        (tmp_path / name).write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    return tmp_path


def pair(**changes: Any) -> PairText:
    given = {
        "task": "retrieval", "pair": 0, "opening": "Read.\n", "records": ("Entity 01: A\n",),
        "donor_records": ("Entity 02: B\n",), "question": "Answer:", "answer": "A", "source": {},
    }  # fmt: skip
    return PairText(**{**given, **changes})


def test_pair_zero_is_the_papers_printed_example() -> None:
    text = retrieval_text(0, 20260908)
    assert "".join(record[-2] for record in text.records) == "ABABBBBA"
    assert "Entity 06?" in text.question
    assert [record[7:9] for record in text.records] == [f"{n:02d}" for n in range(1, 9)]
    assert " ".join(record[7:9] for record in text.donor_records) == "04 05 06 07 08 01 02 03"
    assert "".join(record[-2] for record in text.donor_records) == "BABAAAAB"
    assert text.answer == "B"


def test_every_retrieval_pair_has_both_labels_and_a_donor_that_moves_every_identifier() -> None:
    for u in range(200):
        text = retrieval_text(u, 20260908)
        assert {record[-2] for record in text.records} == {"A", "B"}
        for own, other in zip(text.records, text.donor_records, strict=True):
            assert own[:9] != other[:9]
            assert {own[-2], other[-2]} == {"A", "B"}


def test_spans_cover_the_records_with_their_newline_and_nothing_else(embedded: Any) -> None:
    _, tokenizer = embedded
    text = retrieval_text(3, 20260908)
    tokens = tokenise(text, tokenizer, 512)
    for (first, stop), own, other in zip(
        tokens.spans, text.records, text.donor_records, strict=True
    ):
        assert tokenizer.decode(tokens.baseline[first:stop]) == own
        assert tokenizer.decode(tokens.donor[first:stop]) == other
    assert [tokenizer.decode([label]) for label in tokens.labels] == ["A", "B"]


def test_a_donor_of_another_length_is_refused_by_name(embedded: Any) -> None:
    longer = pair(donor_records=("Entity 02 02: B\n",))
    with pytest.raises(ValueError, match=r"Pair retrieval-000: `donor` must"):
        tokenise(longer, embedded[1], 512)


def test_a_prompt_that_does_not_fit_is_refused_plainly(embedded: Any) -> None:
    with pytest.raises(ValueError, match=r"has \d+ tokens and the model takes 16. It does not fit"):
        tokenise(retrieval_text(0, 1), embedded[1], 16)


def test_records_that_share_a_token_are_refused(embedded: Any) -> None:
    joined = pair(records=("Ent", "ity 01: A\n"), donor_records=("Ent", "ity 02: B\n"))
    with pytest.raises(ValueError, match="spans must not share tokens"):
        tokenise(joined, embedded[1], 512)


def test_spans_at_different_places_are_refused(embedded: Any) -> None:
    own = ("Entity 01: A\n", "Entity 02: A\n")
    moved = ("Entity 01: ", "B\nEntity 02: B\n")
    with pytest.raises(ValueError, match="spans must lie at the same tokens"):
        tokenise(pair(records=own, donor_records=moved), embedded[1], 512)


def test_sst2_demonstrations_are_balanced_and_the_donor_flips_them(folder: Path) -> None:
    data = sst2.read_sst2(folder)
    for text in sst2.sst2_pairs(data, 5, 20260908):
        assert [record[-2] for record in text.records].count("A") == 4
        for own, other in zip(text.records, text.donor_records, strict=True):
            assert own[:-2] == other[:-2]
            assert {own[-2], other[-2]} == {"A", "B"}
        rows = text.source["train_rows"]
        assert len(set(rows)) == 8
        assert all(data.train.sentences[row] in text.records[n] for n, row in enumerate(rows))


def test_sst2_queries_are_not_reused_and_pairs_do_not_depend_on_how_many_are_asked(
    folder: Path,
) -> None:
    data = sst2.read_sst2(folder)
    many = sst2.sst2_pairs(data, 12, 7)
    assert many[:3] == sst2.sst2_pairs(data, 3, 7)
    assert len({text.source["validation_row"] for text in many}) == 12
    with pytest.raises(ValueError, match="`pairs` must not exceed the 12 queries; got 13"):
        sst2.sst2_pairs(data, 13, 7)


def test_sst2_sentences_outside_the_papers_lengths_or_repeated_in_a_prompt_are_not_drawn(
    tmp_path: Path,
) -> None:
    same = [f"{FILLER}  ONE\t0", f"{FILLER} one \t0"]
    rows = [*same, *(f"{FILLER} {n}\t{n % 2}" for n in range(7)), "short\t0", f"{'x' * 161}\t1"]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *rows, f"{FILLER} z\t1"]))
    (tmp_path / "dev.tsv").write_text(f"sentence\tlabel\n{FILLER} query\t1\n")
    for seed in range(20):
        (text,) = sst2.sst2_pairs(sst2.read_sst2(tmp_path), 1, seed)
        drawn = set(text.source["train_rows"])
        assert not drawn & {9, 10}
        assert len(drawn & {0, 1}) < 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\tlabel\na\t0\n", "must begin with the header"),
        ("sentence\tlabel\nfine\t1\nbad\t2\n", r"train.tsv, line 3: must be a sentence"),
        (None, r"train.tsv is not there"),
    ],
)
def test_a_wrong_data_file_is_refused_with_its_line(
    folder: Path, content: str | None, message: str
) -> None:
    (folder / "train.tsv").unlink()
    if content is not None:
        (folder / "train.tsv").write_text(content)
    with pytest.raises(ValueError, match=message):
        sst2.read_sst2(folder)


def test_too_few_sentences_of_a_class_are_refused(folder: Path) -> None:
    lines = [f"{FILLER} {n}\t0" for n in range(20)]
    (folder / "train.tsv").write_text("\n".join(["sentence\tlabel", *lines]))
    with pytest.raises(ValueError, match="must hold 4 distinct sentences of each class"):
        sst2.sst2_pairs(sst2.read_sst2(folder), 1, 0)


def test_the_hub_is_read_at_the_papers_revision(monkeypatch: Any, tmp_path: Path) -> None:
    asked = []

    def download(repository: str, file: str, *, repo_type: str, revision: str) -> str:
        asked.append((repository, repo_type, revision))
        target = tmp_path / file.replace("/", "-")
        pq.write_table(pa.table({"sentence": ["one ", "two"], "label": [0, 1]}), target)
        return str(target)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    data = sst2.read_sst2(None)
    assert data.train.sentences == ("one", "two")
    assert data.validation.labels == (0, 1)
    wanted = ("stanfordnlp/sst2", "dataset", "8d51e7e4887a4caaa95b3fbebbf53c0490b58bbb")
    assert asked == [wanted, wanted]


def test_without_hub_and_folder_the_message_says_what_to_do(monkeypatch: Any) -> None:
    def offline(*_: Any, **__: Any) -> str:
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", offline)
    with pytest.raises(ValueError, match=r"Pass a folder with train.tsv and dev.tsv"):
        sst2.read_sst2(None)


def test_the_manifest_holds_rows_and_hashes_but_no_sentence(folder: Path, embedded: Any) -> None:
    # Bytes are long: only the manifest is of interest, so the sentences are shortened to fit.
    for name in ("train.tsv", "dev.tsv"):
        text = (folder / name).read_text().replace(FILLER, "twenty characters it is")
        (folder / name).write_text(text)
    settings = joint_settings("embedded", tasks=("sst2",), pairs=2, data=folder)
    prompts = plan_pairs(settings, embedded[1], 512)
    kept = canonical(prompts.manifest)
    assert "twenty" not in kept
    assert '"validation_row"' in kept
    assert '"train_sha256"' in kept
    assert tuple(prompts.units) == ("sst2-000", "sst2-001")
