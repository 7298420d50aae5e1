"""Join a run: what it computes is read from where it is, by any machine that sees the place."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from finite_calculus.harness import directory
from finite_calculus.harness.executors import choose_threads
from finite_calculus.harness.registry import find_study
from finite_calculus.harness.runner import Progress, Report, run
from finite_calculus.harness.settings import StudySettings
from finite_calculus.harness.store import Folder, Store
from finite_calculus.harness.study import Study


def join_run(
    place: Path | Store,
    *,
    places: Mapping[str, str] | None = None,
    device: str = "cpu",
    report: Report = lambda unit, done, total: None,
) -> Progress:
    """Work on the units of a run that nobody has, until none is left.

    Settings and threads are the run's own; other code, versions, models or processors are refused with the
    difference. `places` are folders of the user that the settings do not keep.
    """
    store = Folder(place) if isinstance(place, Path) else place
    record = directory.read_run(store.path)
    study = find_study(record.study)
    settings = settings_of(study, record, places or {})
    torch.set_num_threads(choose_threads(store.path, 1, None))
    return run(study, settings, store, device=device, report=report)


def settings_of(
    study: Study[Any, Any], record: directory.RunRecord, places: Mapping[str, str]
) -> StudySettings:
    """The settings of a run, with folders of the user."""
    fields = study.Settings.model_fields
    allowed = [name for name, field in fields.items() if field.exclude or name == "model"]
    wrong = sorted(set(places) - set(allowed))
    if wrong:
        raise ValueError(
            f"`places` must name {' or '.join(allowed) or 'nothing'} of {study.name}; got {wrong[0]}."
        )
    return study.Settings.model_validate({**record.identity["settings"], **places})
