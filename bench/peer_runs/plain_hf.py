"""Plain Hugging Face in this project's own environment: hooks, and a patched prefix cache."""

from bench.peer_runs.shared import BATCH, Plain, Way, measure


def ways(plain: Plain) -> dict[str, Way]:
    return {
        "alone": Way(plain.run, 1),
        "batched": Way(plain.run, BATCH),
        "cached": Way(plain.run_on_cache, BATCH, last_query=True),
    }


if __name__ == "__main__":
    measure("transformers", ways)
