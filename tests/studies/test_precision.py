"""The precision of a run's model is one of its settings; runs from before there was a choice are float32."""

from typing import Any, get_args

import pytest
import torch
from pydantic import ValidationError

from finite_calculus.harness.directory import RunRecord
from finite_calculus.harness.joining import settings_of
from finite_calculus.harness.options import command_words
from finite_calculus.harness.registry import find_study, study_names
from finite_calculus.harness.settings import Dtype, ModelSettings
from finite_calculus.harness.subjects import ModelSubject, open_subject
from finite_calculus.models.precision import PRECISIONS
from finite_calculus.studies.retrieval_heads import STUDY, HeadSettings


def settings(**changes: Any) -> HeadSettings:
    return HeadSettings.complete(
        {"model": "embedded", "find_sets": 1, "sets": 1, "tasks": ("ordered",), **changes}, 4
    )


def test_the_option_offers_the_precisions_that_there_are() -> None:
    assert set(get_args(Dtype)) == set(PRECISIONS)


def test_float32_is_not_written_so_that_older_runs_are_the_same_runs() -> None:
    plain, half = settings(), settings(dtype="float16")
    saved = plain.model_dump(mode="json")
    assert "dtype" not in saved
    assert "--dtype" not in command_words(plain)
    assert HeadSettings.model_validate(saved) == plain
    assert half.model_dump(mode="json") == {**saved, "dtype": "float16"}
    assert HeadSettings.model_validate(half.with_places()) == half
    assert command_words(half)[-2:] == ["--dtype", "float16"]
    assert half.title == f"{plain.title} in float16"


def test_a_precision_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValidationError, match="'float32', 'bfloat16', 'float16' or 'float64'"):
        settings(dtype="int8")


def test_studies_that_half_precision_would_drown_refuse_it_with_their_reason() -> None:
    refusing = set()
    for name in study_names():
        kind = find_study(name).Settings
        if not issubclass(kind, ModelSettings) or not kind.not_in_half:
            continue
        refusing.add(name)
        complete = kind.complete({"model": "embedded"}, 4).model_dump(mode="json")
        assert kind.model_validate({**complete, "dtype": "float64"}).dtype == "float64"
        for half in ("bfloat16", "float16"):
            with pytest.raises(ValidationError, match=f"for {name}, which .*; got {half}"):
                kind.model_validate({**complete, "dtype": half})
    assert refusing == {"joint-kv", "positional", "reconstruction", "search"}


def test_a_model_of_another_precision_than_the_settings_is_refused(embedded: Any) -> None:
    with (
        pytest.raises(ValueError, match="`loaded` must compute in what the settings say, float16"),
        open_subject(settings(dtype="float16"), loaded=embedded),
    ):
        pass


def test_a_run_is_joined_in_its_own_precision() -> None:
    half = settings(dtype="float16")
    with open_subject(half) as subject:
        assert isinstance(subject, ModelSubject)
        assert subject.model.dtype == torch.float16
    identity = {"settings": half.model_dump(mode="json")}
    record = RunRecord(study=STUDY.name, fingerprint="", identity=identity, started="")
    assert settings_of(STUDY, record, {}) == half
