"""The driver of a Ray cluster, on a stand-in for Ray; `bench/ray_study.py` kills nodes of a real one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from finite_calculus.harness import ChangedRunError, GateShutError
from finite_calculus.harness.errors import UnitError, WorkerError
from finite_calculus.harness.identity import versions
from finite_calculus.harness.ray_cluster import LOADS, RayCluster, _Drive
from finite_calculus.harness.runner import Progress
from tests.helpers.toy_study import STUDY, ToySettings


class RayError(Exception):
    """What Ray raises where a task raised, with its cause."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class FakeRay:
    """Ray as the driver sees it: what is asked is answered at the next wait, in order."""

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most_loading = 0

    def wait(self, refs: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        steps = [step for step, _ in refs]
        self.most_loading = max(self.most_loading, steps.count("load"))
        return refs, []

    def get(self, ref: Any) -> Any:
        step, answer = ref
        self.asked.append(step)
        if isinstance(answer, BaseException):
            raise RayError(answer)
        return answer

    def member(self, **answers: Any) -> Any:
        """A member with its answers."""
        given = {
            "greet": ("node-7", versions(STUDY), True),
            "load": None,
            "work": (4, 4),
            **answers,
        }
        return SimpleNamespace(
            **{step: SimpleNamespace(remote=Asked(step, answer)) for step, answer in given.items()}
        )


class Asked:
    """A call that gives a new reference each time."""

    def __init__(self, step: str, answer: Any) -> None:
        self.step, self.answer = step, answer

    def __call__(self, *_: Any) -> Any:
        return Reference((self.step, self.answer))


class Reference(tuple):  # type: ignore[type-arg]
    """A pair that is only equal to itself."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def drive(ray: FakeRay, out: Path, *members: Any) -> Progress:
    """Drive some members."""
    return _Drive(ray, STUDY, out, lambda *_: None).run(list(members))


def test_members_are_greeted_before_any_loads_and_few_load_at_a_time(tmp_path: Path) -> None:
    ray = FakeRay()
    assert drive(ray, tmp_path, *(ray.member() for _ in range(10))) == Progress(4, 4)
    assert ray.asked[:10] == ["greet"] * 10
    assert ray.most_loading == LOADS
    assert list(tmp_path.iterdir()) == []


def test_a_node_with_another_version_is_refused_before_the_first_unit(tmp_path: Path) -> None:
    ray = FakeRay()
    theirs = versions(STUDY)
    theirs["made_with"] = {**theirs["made_with"], "torch": "2.12.0"}
    with pytest.raises(
        ChangedRunError, match=r"node-7 differs[\s\S]*made_with\.torch: .* → 2\.12\.0"
    ):
        drive(ray, tmp_path, ray.member(), ray.member(greet=("node-7", theirs, True)))
    assert set(ray.asked) == {"greet"}


def test_a_node_that_does_not_see_the_directory_is_refused(tmp_path: Path) -> None:
    ray = FakeRay()
    unseeing = ray.member(greet=("node-7", versions(STUDY), False))
    with pytest.raises(WorkerError, match=r"must see .*; node-7 does not. Use a directory"):
        drive(ray, tmp_path, unseeing)


def test_the_others_go_on_where_a_unit_failed_and_all_stop_at_a_shut_gate(tmp_path: Path) -> None:
    ray = FakeRay()
    failing = ray.member(work=UnitError("the unit 3 failed"))
    assert drive(ray, tmp_path, failing, ray.member()) == Progress(4, 4)
    with pytest.raises(
        WorkerError, match=r"All of 2 members .* The last message: the unit 3 failed"
    ):
        drive(ray, tmp_path, failing, failing)
    with pytest.raises(GateShutError, match="the gate is shut"):
        drive(ray, tmp_path, ray.member(work=GateShutError("the gate is shut")), ray.member())


def test_a_limit_and_an_address_without_a_cluster_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`limit` must be left out on a Ray cluster; got 1"):
        RayCluster("local")(STUDY, ToySettings(), tmp_path / "run", limit=1)
    assert not (tmp_path / "run").exists()
