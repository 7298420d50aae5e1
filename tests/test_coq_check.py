"""The Coq checker: what it reads from sources, and that it never calls an unproved thing checked.
The small libraries here use only Coq itself; the whole library is compiled by
``python -m proofs.coq_check``."""

import shutil
from pathlib import Path

import pytest

from proofs import coq_check, coq_source

needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="coqc is not installed; CI installs Debian's coq"
)

BASE = """(* A tiny library. Labels: eq:one. *)
From Coq Require Import Arith.
(* eq:one, U3: one and one make two *)
Theorem one : 1 + 1 = 2.
Proof. reflexivity. Qed.
(* (* nested *) words without a label *)
Lemma zero : 0 + 0 = 0.
Proof. reflexivity. Qed.
"""
USER = """From FiniteCalculus Require Import Base.
(* main:two (second form): the same again *)
Corollary two : 2 = 1 + 1.
Proof. symmetry. exact one. Qed.
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    source = tmp_path / "coq"
    source.mkdir()
    (source / "Base.v").write_text(BASE)
    (source / "A_user.v").write_text(USER)
    return source


def append(library: Path, text: str) -> None:
    file = library / "Base.v"
    file.write_text(file.read_text() + text)


def test_theorems_are_parsed_with_their_labels_and_lines(library: Path) -> None:
    theorems = coq_source.theorems(library)
    assert set(theorems) == {"Base.one", "Base.zero", "A_user.two"}
    assert theorems["Base.one"].labels == ("eq:one", "U3")
    assert theorems["Base.one"].comment == "one and one make two"
    assert theorems["Base.one"].line == 4
    assert theorems["A_user.two"].labels == ("main:two",)
    assert theorems["A_user.two"].kind == "Corollary"


def test_commented_out_theorems_are_not_counted(library: Path) -> None:
    append(library, "(* Theorem ghost : False. *)\n")
    assert "Base.ghost" not in coq_source.theorems(library)


def test_a_name_stated_twice_is_rejected(library: Path) -> None:
    append(library, "Lemma one : 1 = 1.\nProof. reflexivity. Qed.\n")
    with pytest.raises(ValueError, match=r"Base\.v: one is stated twice"):
        coq_source.theorems(library)


def test_an_empty_source_directory_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must hold \.v files"):
        coq_source.theorems(tmp_path)


def test_labels_point_to_theorems(library: Path) -> None:
    assert coq_source.by_label(library)["U3"] == ("Base.one",)


def test_an_unknown_dependency_is_rejected(library: Path) -> None:
    append(library, "From FiniteCalculus Require Import Nowhere.\n")
    with pytest.raises(ValueError, match="Nowhere"):
        coq_source.dependencies(library.glob("*.v"))


def test_the_shipped_library_parses_and_names_the_main_theorem() -> None:
    theorems = coq_source.theorems()
    assert "main:response" in theorems["Response.response"].labels
    assert not list(coq_source.unproved_commands(coq_source.SOURCE))
    coq_source.dependencies(coq_source.source_files(coq_source.SOURCE))


def test_assumptions_are_parsed_block_by_block() -> None:
    output = (
        "@@ A.x\nAxioms:\nLib.short : Prop\nLib.long\n  : forall P,\n    P\n"
        "@@ A.y\nClosed under the global context\n"
    )
    expected = {"A.x": ("Lib.long", "Lib.short"), "A.y": ()}
    assert coq_check._parse_assumptions(output) == expected


def test_without_coqc_nothing_is_called_checked(
    library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = coq_check.check(source=library)
    assert report.status == "not checked"
    assert "coqc is not installed" in report.reason
    assert {t.status for t in report.theorems.values()} == {"not checked"}


@pytest.mark.parametrize(
    "text",
    [
        "Axiom magic : 1 = 2.\n",
        "Parameter n : nat.\n",
        "Lemma open : 1 = 1.\nProof.\nAdmitted.\n",
        "Lemma open : 1 = 1.\nProof. admit. Abort.\n",
    ],
)
def test_unproved_commands_fail_even_without_coq(
    library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    append(library, text)
    monkeypatch.setenv("PATH", str(tmp_path))
    report = coq_check.check(source=library)
    assert report.status == "failed"
    assert report.failures[0].file == "Base.v"


@needs_coq
def test_a_sound_library_is_checked_without_axioms(library: Path) -> None:
    report = coq_check.check(source=library)
    assert report.status == "checked"
    assert report.axioms == ()
    assert {t.status for t in report.theorems.values()} == {"checked"}


@needs_coq
def test_a_broken_lemma_fails_by_file_and_name(library: Path) -> None:
    append(library, "Lemma broken : 1 = 2.\nProof. reflexivity. Qed.\n")
    report = coq_check.check(source=library)
    assert report.status == "failed"
    failure = report.failures[0]
    assert (failure.file, failure.theorem) == ("Base.v", "Base.broken")
    assert failure.line == 10
    assert "unify" in failure.message


@needs_coq
def test_a_hidden_assumption_fails_and_names_the_theorem(library: Path) -> None:
    # A Variable outside a section is an axiom that no keyword search catches.
    append(library, "Variable hidden : 1 = 2.\nLemma wrong : 1 = 2.\nProof. exact hidden. Qed.\n")
    report = coq_check.check(source=library)
    assert report.status == "failed"
    assert [f.theorem for f in report.failures] == ["Base.wrong"]
    assert "hidden" in report.failures[0].message
    assert report.theorems["Base.one"].status == "checked"


@needs_coq
def test_a_missing_library_is_not_checked(library: Path) -> None:
    append(library, "From NoSuchLibrary Require Import Everything.\n")
    report = coq_check.check(source=library)
    assert report.status == "not checked"
    assert "NoSuchLibrary" in report.reason


@needs_coq
def test_a_build_directory_is_reused_only_while_sources_are_unchanged(
    library: Path, tmp_path: Path
) -> None:
    build = tmp_path / "build"
    messages: list[str] = []
    coq_check.check(source=library, build_dir=build)
    coq_check.check(messages.append, source=library, build_dir=build)
    assert not [m for m in messages if "compiled" in m]
    append(library, "Lemma three : 1 + 2 = 3.\nProof. reflexivity. Qed.\n")
    report = coq_check.check(messages.append, source=library, build_dir=build)
    assert report.status == "checked"
    assert len([m for m in messages if "compiled" in m]) == 2
