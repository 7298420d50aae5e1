"""Folders in Hugging Face form: the same model as by name, the facts of any family, and every refusal."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BloomConfig, Gemma3TextConfig, GPT2Config, MambaConfig, MptConfig

from finite_calculus.checkpoints import CheckpointError, architecture, checkpoint, load, origin_of
from finite_calculus.checkpoints.configuration import of_config
from native_checks.fingerprint import fingerprint, weights_hash
from native_checks.gate import gate

TEXT = "Entity 06: B\nnaïve  text 12345\n"


@pytest.mark.parametrize("name", ["embedded", "tiny-qwen2"])
def test_a_saved_checkpoint_gives_the_tokens_and_logits_of_the_named_one(
    name: str, folders: dict[str, Path]
):
    named, saved = load(name), load(str(folders[name]))
    ids, again = (tokenizer(TEXT, return_tensors="pt").input_ids for _, tokenizer in (named, saved))
    assert torch.equal(ids, again)
    assert torch.equal(named[0](ids).logits, saved[0](ids).logits)
    assert weights_hash(named[0]) == weights_hash(saved[0])
    assert named[1].chat_template == saved[1].chat_template


def test_a_loaded_folder_is_eager_frozen_and_in_evaluation_mode(folders: dict[str, Path]):
    model, _ = load(str(folders["tiny-qwen2"]), dtype=torch.float64)
    assert model.config._attn_implementation == "eager"
    assert model.dtype == torch.float64
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_the_fingerprint_names_the_source_and_holds_no_path(folders: dict[str, Path]):
    record = fingerprint(load(str(folders["other"]))[0])
    assert (record["source"], record["source_name"]) == ("folder", "other")
    assert str(folders["other"].parent) not in json.dumps(record)
    named = fingerprint(load("tiny-llama")[0])
    assert (named["source"], named["source_name"]) == ("name", "tiny-llama")
    assert len(record["weights"]) == 64
    assert record["weights"] != named["weights"]


def test_a_model_from_elsewhere_has_no_origin():
    model, _ = load("tiny-llama")
    other = type(model)(model.config)
    assert origin_of(other) is None
    assert "source" not in fingerprint(other)


def test_the_architecture_of_a_folder_is_that_of_the_registry(folders: dict[str, Path]):
    for name in ("embedded", "tiny-qwen2"):
        known, read = checkpoint(name).architecture, architecture(str(folders[name]))
        assert architecture(name) == known
        for fact in ("family", "layers", "heads", "groups", "head_width", "theta", "context"):
            assert getattr(read, fact) == getattr(known, fact), fact


@pytest.mark.parametrize(
    ("config", "facts"),
    [
        (
            GPT2Config(n_layer=5, n_head=4, n_positions=64, n_embd=32),
            ("gpt2", 5, 4, 4, 8, None, 64),
        ),
        (
            MptConfig(n_layers=3, n_heads=4, max_seq_len=96, d_model=64),
            ("mpt", 3, 4, 4, 16, None, 96),
        ),
        (
            Gemma3TextConfig(num_hidden_layers=6, max_position_embeddings=128),
            ("gemma3_text", 6, 8, 4, 256, 1e6, 128),
        ),
    ],
)
def test_families_that_spell_their_facts_otherwise_are_read(config: Any, facts: tuple, tmp_path):
    config.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").touch()
    read = architecture(str(tmp_path))
    shape = (read.family, read.layers, read.heads, read.groups, read.head_width)
    assert (*shape, read.theta, read.context) == facts


def test_a_configuration_that_states_no_heads_or_no_length_is_refused():
    with pytest.raises(CheckpointError, match=r"\(mamba\) must state num_attention_heads as a"):
        of_config(MambaConfig(), "this")
    with pytest.raises(CheckpointError, match=r"\(bloom\) must state max_position_embeddings or"):
        of_config(BloomConfig(), "this")


def _write(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text)


def _drop(*names: str, add: tuple[str, ...] = ()) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()
        for name in add:
            (folder / name).write_bytes(b"{}")

    return change


def _with_config(**entries: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))

    return change


def _with_part(name: str) -> Callable[[Path], None]:
    """An index in the place of the weights."""
    index = json.dumps({"weight_map": {"model.norm.weight": name}})
    return lambda folder: (
        (folder / "model.safetensors").unlink(),
        (folder / "model.safetensors.index.json").write_text(index),
    )[0]


def _cut(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return change


WEIGHTS = "model.safetensors"
REFUSALS = {
    "no configuration": (_drop("config.json"), "so that its architecture is unknown"),
    "damaged JSON": (_write("config.json", '{"model_type": '), "cannot be read as JSON: "),
    "no object": (_write("config.json", "[1]"), "must hold one JSON object; it holds a list"),
    "remote code": (
        _with_config(auto_map={"AutoModel": "model.Model"}),
        r"asks for code of its own repository \(auto_map\), which is never run",
    ),
    "unknown family": (_with_config(model_type="nonesuch"), "as a causal language model: "),
    "no causal model": (_with_config(model_type="vit"), "as a causal language model: "),
    "pickles": (
        _drop(WEIGHTS, add=("pytorch_model.bin",)),
        r"as pickles only \(pytorch_model.bin\)\. A pickle can run any code",
    ),
    "no weights": (_drop(WEIGHTS), "there are no weights to load"),
    "adapter": (
        _drop("config.json", WEIGHTS, add=("adapter_config.json", "adapter_model.safetensors")),
        r"holds an adapter \(adapter_config.json\), whose model is another one",
    ),
    "adapter beside a model": (_drop(add=("adapter_config.json",)), "holds an adapter"),
    "quantised": (
        _with_config(quantization_config={"quant_method": "gptq", "bits": 4}),
        r"asks for quantised weights \(quantization_config\), whose arithmetic is not",
    ),
    "damaged weights": (_cut(WEIGHTS), "transformers cannot load .*: Safetensor"),
    "more layers than weights": (
        _with_config(num_hidden_layers=4, layer_types=["full_attention"] * 4),
        "lack 12 weights of its architecture, such as model.layers.3",
    ),
    "missing part": (_with_part("part.safetensors"), "transformers cannot load "),
    "damaged tokenizer": (_cut("tokenizer.json"), "The tokenizer files in .* are unreadable: "),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_folder_that_cannot_be_trusted_or_read_is_refused_with_the_reason(
    case: str, folders: dict[str, Path], tmp_path: Path
):
    change, said = REFUSALS[case]
    folder = Path(shutil.copytree(folders["tiny-qwen2"], tmp_path / "copy"))
    change(folder)
    with pytest.raises(CheckpointError, match=said):
        load(str(folder))


def test_a_path_that_is_no_folder_is_refused(folders: dict[str, Path], tmp_path: Path):
    with pytest.raises(
        CheckpointError, match=r"with config.json and safetensors; .* does not exist"
    ):
        load(str(tmp_path / "nowhere"))
    with pytest.raises(
        CheckpointError, match=r"is a file\. Give the folder that `save_pretrained`"
    ):
        load(str(folders["other"] / WEIGHTS))


def test_an_unknown_family_has_no_architecture(folders: dict[str, Path], tmp_path: Path):
    folder = Path(shutil.copytree(folders["tiny-qwen2"], tmp_path / "copy"))
    _with_config(model_type="nonesuch")(folder)
    with pytest.raises(CheckpointError, match="does not know the configuration of"):
        architecture(str(folder))


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("[", "is no index of safetensors"),
        ('{"weight_map": []}', "is no index of safetensors"),
        ('{"weight_map": {"w": "../x.safetensors"}}', "may name safetensors beside it only"),
        ('{"weight_map": {"w": "x.bin"}}', "beside it only; it names 'x.bin'"),
    ],
)
def test_an_index_names_safetensors_beside_it_and_nothing_else(index: str, said: str, tmp_path):
    from finite_calculus.checkpoints.folder import parts_of

    (tmp_path / "index.json").write_text(index)
    with pytest.raises(CheckpointError, match=said):
        parts_of(tmp_path / "index.json")


def test_without_a_tokenizer_ids_work_and_a_prompt_of_the_gate_is_refused(tmp_path: Path):
    load("tiny-llama")[0].save_pretrained(tmp_path / "bare")
    assert load(str(tmp_path / "bare"))[1] is None
    with pytest.raises(CheckpointError, match=r"bare \(folder\) has no tokenizer, and a prompt"):
        gate(str(tmp_path / "bare"), prompt="A B", references=())
