"""A file of prompts is read whole, and what is wrong is named by its line."""

from pathlib import Path

import pytest

from finite_calculus.tasks.prompt_file import PromptLine, each_line, read_prompts


def written(folder: Path, *lines: str) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_lines_are_read_with_their_numbers_and_empty_ones_are_passed_over(tmp_path) -> None:
    path = written(
        tmp_path,
        "\ufeff" + '{"prompt": "A B", "answer": "A", "versus": "B", "name": "first"}',
        "",
        '{"prompt": "é\\nf", "edits": ["delete:1:3", "odds:1:2:4"], "answer": null}\r',
    )
    assert read_prompts(path) == (
        PromptLine(1, "A B", "A", "B", "first"),
        PromptLine(3, "é\nf", edits=("delete:1:3", "odds:1:2:4")),
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("prompt", "line 2: it must be one JSON object"),
        ("[1, 2]", r"line 2: it must be an object such as .*got \[1, 2\]"),
        ('{"promt": "A B"}', "line 2: 'promt' is no field of a prompt; there are prompt, answer"),
        ('{"prompt": " "}', "line 2: `prompt` must be a text with something in it"),
        ('{"answer": "A"}', "line 2: `prompt` must be a text with something in it"),
        ('{"prompt": "A B", "answer": 3}', "line 2: `answer` must be a text; got 3"),
        ('{"prompt": "A B", "edits": "delete:1:3"}', "line 2: `edits` must be a list of texts"),
        ('{"prompt": "A B", "edits": []}', "line 2: `edits` must be a list of texts"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path, line, words) -> None:
    with pytest.raises(ValueError, match=words):
        read_prompts(written(tmp_path, '{"prompt": "A B"}', line))


def test_all_bad_lines_are_counted_and_the_first_are_named(tmp_path) -> None:
    path = written(tmp_path, *["{}"] * 7)
    with pytest.raises(ValueError, match="nothing was run: 7 of them cannot") as refusal:
        read_prompts(path)
    message = str(refusal.value)
    assert [f"line {n}:" in message for n in range(1, 8)] == [True] * 5 + [False] * 2
    assert "and 2 more" in message


def test_a_file_without_prompts_or_that_is_not_there_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match="must hold a prompt on some line"):
        read_prompts(written(tmp_path, "", " "))
    with pytest.raises(ValueError, match="cannot read prompts from"):
        read_prompts(tmp_path / "nowhere.jsonl")
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes('{"prompt": "é"}'.encode("latin-1"))
    with pytest.raises(ValueError, match="cannot read prompts from"):
        read_prompts(latin)


def test_errors_that_are_no_refusal_are_not_swallowed(tmp_path) -> None:
    def broken() -> None:
        raise KeyError("a defect")

    with pytest.raises(KeyError):
        each_line(tmp_path, [(1, broken)])
