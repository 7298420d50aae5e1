"""Settings: frozen, unknown keys rejected, the paper's designs as printed."""

import pytest
from pydantic import ValidationError

from finite_calculus.harness.identity import differences
from finite_calculus.harness.options import command_words
from finite_calculus.provenance.digests import canonical
from finite_calculus.studies.joint_kv import JointKVSettings, joint_settings

PLACE = {"task": "retrieval", "layer": 3, "strengths": [1.0, 0.1, 0.5]}
FIRST_VERSION = {"study": "joint-kv", "model": "embedded", "seed": 1, "batch": 5, "pairs": 2}


def interventions(settings: JointKVSettings) -> int:
    each = [8 * (3 + len(place.strengths) - 1) for place in settings.places]
    return settings.pairs * sum(each)


def test_an_unknown_key_is_rejected() -> None:
    plain = joint_settings("embedded").model_dump(mode="json")
    assert JointKVSettings.model_validate(plain).model_dump(mode="json") == plain
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        JointKVSettings.model_validate({**plain, "prompts": 32})


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        joint_settings("embedded").batch = 3


def test_the_papers_two_checkpoints_give_its_six_settings_and_5120_interventions() -> None:
    runs = [joint_settings(f"qwen2.5-{size}-instruct") for size in ("0.5b", "1.5b")]
    listed = [(p.task, p.layer, p.strengths) for run in runs for p in run.places]
    assert listed == [
        ("retrieval", 18, (1.0,)),
        ("sst2", 18, (1.0,)),
        ("retrieval", 14, (1.0,)),
        ("retrieval", 21, (1.0, 0.1, 0.5)),
        ("sst2", 14, (1.0,)),
        ("sst2", 21, (1.0,)),
    ]
    assert sum(interventions(run) for run in runs) == 5120
    assert {run.batch for run in runs} == {5}


def test_the_initial_run_is_one_layer_of_retrieval_with_768_interventions() -> None:
    run = joint_settings("qwen2.5-1.5b-instruct", design="initial")
    assert [(p.task, p.layer) for p in run.places] == [("retrieval", 21)]
    assert interventions(run) == 768
    assert run.batch == 32


def test_another_model_gets_a_quarter_half_and_three_quarters_of_its_depth() -> None:
    run = joint_settings("smollm2-135m-instruct")
    assert [p.layer for p in run.places] == [7, 15, 22, 7, 15, 22]
    assert interventions(run) == 5120


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([4], r"`layers` must lie in 0\.\.3 of embedded; got \[4\]"),
        ([-1], r"`layers` must lie in 0\.\.3 of embedded; got \[-1\]"),
        ([], "`layers` must name at least one layer, each once"),
    ],
)
def test_a_layer_that_the_model_does_not_have_is_refused(layers: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        joint_settings("embedded", layers=layers)


def test_repeated_tasks_and_strengths_out_of_range_are_refused() -> None:
    with pytest.raises(ValidationError, match="must name each one once"):
        joint_settings("embedded", tasks=("retrieval", "retrieval"))
    with pytest.raises(ValidationError, match="less than 1"):
        joint_settings("embedded", strengths=(1.5,))


def test_settings_of_the_first_version_are_read_with_their_places() -> None:
    listed = [{**PLACE, "layer": 1, "strengths": [1.0]}, PLACE]
    settings = JointKVSettings.model_validate({**FIRST_VERSION, "places": listed})
    assert [(p.task, p.layer, p.strengths) for p in settings.places] == [
        ("retrieval", 1, (1.0,)),
        ("retrieval", 3, (1.0, 0.1, 0.5)),
    ]


def test_the_recorded_command_names_every_setting_and_no_place_on_a_machine() -> None:
    settings = joint_settings("smollm2-135m-instruct", data="anywhere")
    words = " ".join(command_words(settings))
    for part in (
        "--model smollm2-135m-instruct --seed 20260908 --batch 5 --design supplement",
        "--task retrieval,sst2 --layers 7,15,22 --strengths 0.1,0.5 --pairs 32 --data DIR",
        "--resamples 5000 --coverage 0.95 --bootstrap-seed 981",
    ):
        assert part in words
    assert "anywhere" not in words + settings.model_dump_json()


def test_differences_are_named_by_path_and_only_those() -> None:
    before = {"settings": {"batch": 5, "places": [1, 2]}, "made_with": {"weights": "a" * 64}}
    after = {"settings": {"batch": 7, "places": [1, 2, 3]}, "made_with": {"weights": "b" * 64}}
    assert differences(before, after) == [
        f"made_with.weights: {'a' * 12}… → {'b' * 12}…",
        "settings.batch: 5 → 7",
        "settings.places.2: absent → 3",
    ]
    assert differences(before, before) == []


def test_the_canonical_text_does_not_depend_on_order_and_refuses_what_is_not_a_number() -> None:
    assert canonical({"b": 1, "a": [1.5]}) == canonical({"a": [1.5], "b": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": float("nan")})
