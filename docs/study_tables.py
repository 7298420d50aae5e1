"""Tables of the pages on reconstruction, regression and runtime, the paper's figures beside ours."""

from archives import ROOT, archive_tables, heading, line

from proofs.printed import shown, tables as printed

ARCHITECTURES = {
    "linear": "linear attention",
    "softmax": "softmax attention",
    "rope": "RoPE–softmax attention",
}
MODELS = {
    "smollm2-135m-instruct": "SmolLM2-135M",
    "stories15m": "stories15M",
    "embedded": "embedded Qwen2",
}


def regression() -> list[str]:
    """Jacobian cosines of seeds 0, 1, 2 and the disagreement: the paper's table and ours."""
    lines = heading(1, "architecture", "seed 0", "seed 1", "seed 2", "disagreement MSE")
    for row in archive_tables("regression", "pilot")["alignment"]:
        name = ARCHITECTURES[row["architecture"]]
        lines.append(line(f"{name} (paper)", *printed.REGRESSION[row["architecture"],]))
        ours = [f"{float(row[f'seed {seed}']):.4f}" for seed in (0, 1, 2)]
        mean = float(row["disagreement, these seeds"])
        lines.append(line(f"{name} (here)", *ours, f"{mean:.6f}"))
    return lines


def regression_seeds() -> list[str]:
    """The distribution over all seeds."""
    names = ("least", "25 %", "median", "75 %", "largest")
    counts = ("at most 0.9", "at most 0.8231")
    lines = heading(1, "architecture", "seeds", *names, *counts)
    for row in archive_tables("regression", "pilot")["distribution"]:
        cells = [f"{float(row[name]):.4f}" for name in names]
        name = ARCHITECTURES[row["architecture"]]
        lines.append(line(name, row["seeds"], *cells, *(row[each] for each in counts)))
    return lines


def regression_outcomes() -> list[str]:
    """The models on either side of the gap."""
    lines = heading(2, "architecture", "Jacobian cosine", "seeds", "mean cosine", "of the exact step",
                    "test MSE", "disagreement MSE")  # fmt: skip
    for row in archive_tables("regression", "pilot")["outcomes"]:
        names = ("mean cosine", "mean cosine of the step", "test MSE", "disagreement MSE")
        cells = [f"{float(row[name]):.4f}" for name in names]
        place = (ARCHITECTURES[row["architecture"]], row["Jacobian cosine"])
        lines.append(line(*place, row["seeds"], *cells))
    return lines


def regression_steps() -> list[str]:
    """The exact effective-weight step beside the learner."""
    lines = heading(1, "architecture, gauge", "Jacobian to learner", "step to learner", "difference",
                    "95 % interval", "step to Jacobian")  # fmt: skip
    for row in archive_tables("regression", "pilot")["directions"]:
        number = {name: f"{float(cell):.4f}" for name, cell in row.items() if _is_number(cell)}
        name = f"{ARCHITECTURES[row['architecture']]}, {row['gauge']}"
        interval = f"{number['low']} to {number['high']}"
        names = ("Jacobian to learner", "step to learner", "difference")
        cells = [number[each] for each in names]
        lines.append(line(name, *cells, interval, number["step to Jacobian"]))
    return lines


def reconstruction() -> list[str]:
    """Float64 and native errors of the combined write beside what they are held to."""
    lines = heading(2, "model", "layer", "rows", "float64 MSE", "of a rounding", "its bound", "native MSE",
                    "its probable bound", "largest difference", "its probable bound")  # fmt: skip
    for (model,), (layer, rows, exact, native, largest) in shown.RECONSTRUCTION.items():
        cells = (exact, "", "", native, "", largest, "")
        lines.append(line(f"Qwen2.5-{model} (paper)", layer, rows, *cells))
    for archive, model in _archives("reconstruction"):
        tables = archive_tables("reconstruction", archive)
        pairs = zip(tables["float64"], tables["native"], strict=True)
        for exact, native in pairs:
            if exact["rows of"] != "combined write":
                continue
            rows = next(r["value"] for r in tables["audit"] if r["figure"] == "rows")
            cells = [
                *(exact[name] for name in ("prefix MSE", "of a rounding", "its bound")),
                *(native[name] for name in ("MSE", "probable bound", "largest difference")),
                native["probable bound "],
            ]
            numbers = [_short(cell) for cell in cells]
            lines.append(line(f"{model} (here)", exact["layer"], rows, *numbers))
    return lines


def reconstruction_frozen() -> list[str]:
    """What a frozen anchor matrix omits."""
    lines = heading(3, "model, layer", "rows of", "gauge", "error / output", "error / change", "least",
                    "largest", "worse than holding", "after correction")  # fmt: skip
    for archive, model in _archives("reconstruction"):
        for row in archive_tables("reconstruction", archive)["frozen"]:
            names = ("error / output", "error / change", "least", "largest")
            cells = [f"{float(row[name]):.3g}" for name in names]
            worse = f"{float(row['worse than holding %']):.0f} %"
            place = (f"{model}, {row['layer']}", row["rows of"], row["gauge"])
            lines.append(line(*place, *cells, worse, _short(row["after correction"])))
    return lines


def runtime() -> list[str]:
    """Milliseconds with preparation charged: the paper's cases, and ours where a run is saved."""
    lines = heading(3, "case", "N", "C", "dense R=1", "ours R=1", "fused R=1", "dense R=3", "ours R=3",
                    "fused R=3", "dense/ours R=1", "dense/ours R=3")  # fmt: skip
    for (kind, tokens, spans), (
        dense,
        sparse,
        dense3,
        sparse3,
        *ratios,
    ) in printed.RUNTIMES.items():
        case = kind if kind == "native" else f"{kind}, {tokens} tokens, {spans} spans"
        words = (dense, sparse, "", dense3, sparse3, "", *ratios)
        lines.append(line(f"{kind}, paper (A100)", tokens, spans, *words))
        for archive, model in _archives("runtime"):
            tables = archive_tables("runtime", archive)
            (machine,) = tables["machine"]
            here = f"here ({machine['processor']}, threads: {machine['threads']})"
            for row in tables["runtime"]:
                if row["case"] == case or row["case"].partition(",")[0] == case:
                    name = f"{kind} ({model}), {here}" if kind == "native" else f"{kind}, {here}"
                    lines.append(line(name, row["N"], row["C"], *_times(row)))
    return lines


def _times(row: dict[str, str]) -> list[str]:
    names = [f"{method}, R={r}" for r in (1, 3) for method in ("dense", "ours", "fused")]
    times = [f"{float(row[name]):.3g}" for name in names]
    return [*times, *(f"{float(row[f'dense/ours, R={r}']):.2f}" for r in (1, 3))]


TABLES = {
    "regression": regression,
    "regression-seeds": regression_seeds,
    "regression-outcomes": regression_outcomes,
    "regression-steps": regression_steps,
    "reconstruction": reconstruction,
    "reconstruction-frozen": reconstruction_frozen,
    "runtime": runtime,
}


def _archives(study: str) -> list[tuple[str, str]]:
    """The archives of a study that are there, with the names that pages give to models."""
    folder = ROOT / "results" / study
    return [(name, model) for name, model in MODELS.items() if (folder / name).is_dir()]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _short(cell: str) -> str:
    digits, _, power = f"{float(cell):.2e}".partition("e")
    return f"{digits}e{int(power)}"
