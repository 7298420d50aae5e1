"""Planted faults are named by layer and head; runs that differ by rounding are called rounding."""

import pytest
import torch

from finite_calculus.cache import CacheRecord, compare_caches, record, rounding_spread
from finite_calculus.cache.passing import passing
from finite_calculus.cache.rounding_noise import UNITS
from finite_calculus.models import attach, supported
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.tiny import tiny_model
from finite_calculus.rotary import rotate

LAYER, HEAD, TOKEN = 1, 1, 7


class Case:
    """A model, its prompt, its recorded run and what rounding may do to it."""

    def __init__(self, name: str) -> None:
        self.model = tiny_model(name)
        draw = torch.Generator().manual_seed(2)
        self.ids, self.others = torch.randint(3, 96, (2, 24), generator=draw)
        self.record = record(self.model, self.ids)
        self.spread = rounding_spread(self.model, self.ids)

    def compare(self, other: CacheRecord):
        return compare_caches(self.record, other, self.spread)


@pytest.fixture(scope="module")
def llama() -> Case:
    return Case("llama")


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "gpt_oss", "mistral"])
def test_other_batches_chunks_and_kernels_are_rounding(name: str) -> None:
    case = Case(name)
    runs = [
        {"rows": 3},
        {"rows": 8},
        {"chunk": 1},
        {"chunk": 5},
        {"chunk": 23},
        {"rows": 2, "chunk": 7},
    ]
    ratios = []
    for options in runs:
        comparison = case.compare(record(case.model, case.ids, **options))
        assert comparison.rounding, comparison.first
        ratios += [max(x.keys, x.values) for x in comparison.layers]
    # The runs do differ, so that calling them rounding says something.
    assert max(ratios) > 0


def test_a_wrong_scale_in_one_head_is_named(llama: Case) -> None:
    def scale(keys, values, layer):
        if layer == LAYER:
            keys[HEAD] *= 1.01
        return keys, values

    first = llama.compare(record(llama.model, llama.ids, transform=scale)).first
    assert (first.layer, first.part, first.heads) == (LAYER, "keys", (HEAD,))
    assert len(first.tokens) == 24
    assert first.guess == "a scale of 1.01"


def test_one_shifted_position_is_named(llama: Case) -> None:
    with attach(llama.model) as instrument:
        rotary = instrument.probed[LAYER].rotary

    def shift(keys, values, layer):
        if layer == LAYER:
            keys[:, TOKEN] = rotate(rotary, keys[:, TOKEN].double(), 1.0).float()
        return keys, values

    first = llama.compare(record(llama.model, llama.ids, transform=shift)).first
    assert (first.layer, first.part, first.tokens) == (LAYER, "keys", (TOKEN,))
    assert first.guess.startswith("keys turned but not stretched")


def test_a_stale_page_is_named(llama: Case) -> None:
    stale = record(llama.model, llama.others)

    def page(keys, values, layer):
        if layer == LAYER and keys.shape[1] == 24:
            keys[:, 8:12], values[:, 8:12] = stale.keys[1][:, 8:12], stale.values[1][:, 8:12]
        return keys, values

    first = llama.compare(record(llama.model, llama.ids, transform=page)).first
    assert (first.layer, first.part, first.tokens) == (LAYER, "keys", (8, 9, 10, 11))
    assert first.guess.endswith("a stale page")

    def moved(keys, values, layer):
        if layer == LAYER and keys.shape[1] == 24:
            keys[:, 8:12], values[:, 8:12] = keys[:, 16:20].clone(), values[:, 16:20].clone()
        return keys, values

    first = llama.compare(record(llama.model, llama.ids, transform=moved)).first
    assert first.guess == "entries of the tokens from 16: a page out of place"


def test_a_mask_off_by_one_in_one_head_is_named(llama: Case) -> None:
    sites = supported(llama.model).sites
    query_head = 3

    def mask(site, call: AttentionCall) -> AttentionCall:
        if site.layer != LAYER:
            return call
        rows, heads, queries, _ = call.query.shape
        seen = torch.ones(queries, queries, dtype=torch.bool).tril().repeat(rows, heads, 1, 1)
        # This head does not attend to the token itself.
        seen[:, query_head, 1:] = seen[:, query_head, :-1].clone()
        added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
        return AttentionCall(call.query, call.key, call.value, added, call.options)

    with passing(llama.model, sites, mask):
        other = record(llama.model, llama.ids)
    first = llama.compare(other).first
    assert (first.layer, first.part, first.heads) == (LAYER, "outputs", (query_head,))
    assert first.guess.startswith("the attention itself")
    # Without outputs the fault is first seen one layer up, in every head.
    first = llama.compare(CacheRecord(other.keys, other.values, None)).first
    assert (first.layer, first.part) == (LAYER + 1, "keys")
    assert first.guess.startswith("every head")


def test_a_record_survives_its_file_and_other_precisions_allow_more(llama: Case, tmp_path) -> None:
    llama.record.save(tmp_path / "run.safetensors")
    again = CacheRecord.load(tmp_path / "run.safetensors")
    assert llama.compare(again).layers[0].keys == 0.0
    coarse = CacheRecord(
        *[tuple(x.to(torch.bfloat16).float() for x in part) for part in (again.keys, again.values)],
        None,
    )
    assert not llama.compare(coarse).rounding
    assert compare_caches(llama.record, coarse, llama.spread, precision="bfloat16").rounding


def test_what_cannot_be_compared_is_refused(llama: Case, tmp_path) -> None:
    short = CacheRecord(llama.record.keys[:1], llama.record.values[:1], None)
    with pytest.raises(ValueError, match="of one prompt and one model"):
        llama.compare(short)
    with pytest.raises(ValueError, match="`precision` must be one of"):
        compare_caches(llama.record, llama.record, llama.spread, precision="int3")
    short.save(tmp_path / "a.safetensors")
    from safetensors.torch import load_file, save_file

    tensors = load_file(tmp_path / "a.safetensors")
    save_file({"layers.0.keys": tensors["layers.0.keys"]}, tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match=r"layers\.0\.values is missing"):
        CacheRecord.load(tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match="`rows` and `chunk` must be at least 1"):
        record(llama.model, llama.ids, chunk=0)
    with pytest.raises(ValueError, match="A transform must return keys of shape"):
        record(llama.model, llama.ids, transform=lambda k, v, layer: (k[:, 1:], v))
    with pytest.raises(ValueError, match="A transform must return finite values"):
        record(llama.model, llama.ids, transform=lambda k, v, layer: (k, v / 0))


def test_what_is_not_a_number_is_no_rounding(llama: Case) -> None:
    values = [x.clone() for x in llama.record.values]
    values[2][0, 3, 1] = float("nan")
    first = llama.compare(CacheRecord(llama.record.keys, tuple(values), llama.record.outputs)).first
    assert (first.layer, first.part, first.heads, first.tokens) == (2, "values", (0,), (3,))
    assert first.guess == "numbers that are none"


@pytest.mark.parametrize("precision", sorted(UNITS))
def test_units_are_half_a_last_place_of_one(precision: str) -> None:
    # Softmax and norms of a float64 model are float32.
    coarsest = torch.float32 if precision == "float64" else getattr(torch, precision)
    assert UNITS[precision] == torch.finfo(coarsest).eps / 2
