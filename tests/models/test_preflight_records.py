"""Preflights of other code are listed and made again; those of this code are left alone."""

import json

import pytest

from native_checks import __main__ as records
from native_checks.gate import code_of_checks
from proofs import native

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
NAME = "tiny-qwen2"


def test_a_record_is_made_again_only_if_it_is_of_other_code(tmp_path, capsys):
    file = tmp_path / f"{NAME}.json"
    file.write_text(json.dumps({"code": {}, "models": {}}))
    folder = ["--folder", str(tmp_path)]
    assert records.main([*folder, "--stale"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == NAME
    assert records.main(folder) == 0
    made = json.loads(file.read_text())
    assert made["code"] == code_of_checks()
    assert list(made["models"]) == [NAME]
    assert records.main([*folder, "--stale"]) == 0
    before = file.read_bytes()
    assert records.main(folder) == 0
    assert file.read_bytes() == before
    (record,) = native.read_records(tmp_path)
    assert set(native.CHECKS) <= set(record.worst)


def test_a_record_is_called_after_its_model_and_its_precision():
    assert records.model_of("embedded") == ("embedded", "float32")
    assert records.model_of("smollm2-135m-instruct") == ("smollm2-135m-instruct", "float32")
    assert records.model_of("tiny-qwen2-bfloat16") == ("tiny-qwen2", "bfloat16")


def test_a_shut_gate_is_an_error(tmp_path, monkeypatch):
    (tmp_path / f"{NAME}.json").write_text("{}")

    class Shut:
        passed = False
        save = verdict = lambda *_: "gate SHUT"

    monkeypatch.setattr(records, "gate", lambda *_, **__: Shut())
    assert records.main(["--folder", str(tmp_path)]) == 1
