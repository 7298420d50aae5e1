"""The sizes of the paper's designs: edits, prompts, heads, patches, timings and candidates.

All of them are whole numbers, so inputs and result are exact. One fact is not printed in
the paper, the 24 layers of the checkpoint that was repaired; it is marked where it is used.
"""

from proofs.printed.figure import Figure, singles

OPENING = """
edits                     | 92,160 | product 30,720 3
prompt sets               | 768    | product 256 3
"""
POSITIONAL = """
edits per set             | 120    | product 5 3 2 4
edits per task            | 30,720 | product 120 256
variants                  | 5      | total 4 1
reorderings               | 3      | difference 4 1
planes of three bands     | 64     | total 22 21 21
planes of the head width  | 64     | ratio 128 2
edits per stratum         | 3,840  | product 256 5 3
edits per task, by strata | 3,840  | ratio 30,720 8
repair conditions         | 6      | product 3 2
"""
RECONSTRUCTION = """
heads and prefixes        | 224    | product 14 16
reconstructions           | 240    | total 224 16
other continuations       | 31     | difference 32 1
"""
JOINT = """
settings                  | 6      | product 3 2
full patches              | 4,608  | product 6 32 8 3
fractional patches        | 512    | product 2 32 8
all patches               | 5,120  | total 4,608 512
settings and pairs        | 192    | product 6 32
distinct pairs            | 64     | product 2 32
contrasts                 | 24     | product 6 4
contrasts shown           | 12     | product 6 2
contrasts, shown or not   | 24     | total 12 12
spans of a setting        | 256    | product 32 8
synthetic timings         | 6      | product 3 2
timings                   | 7      | total 1 6
balanced demonstrations   | 8      | product 2 4
"""
INITIAL = """
initial joint patches     | 256    | product 32 8
initial controls          | 512    | product 32 8 2
initial prefix passes     | 64     | product 32 2
initial batch             | 24     | product 8 3
initial patches           | 768    | product 24 32
initial patches, by kind  | 768    | total 256 512
initial top slots         | 64     | product 32 2
"""
# The checkpoint has 24 layers; the paper prints only the index of its last layer, 23.
CANDIDATES = """
candidates, whole families               | 109,080 | total 7 1 1 6
candidates, whole families in each layer | 109,080 | product 15 24
"""


def counts() -> list[Figure]:
    """Products, totals and quotients of the printed design sizes."""
    exact = "identical"
    return [
        *singles("abstract, main:introduction, main:experiments", OPENING, relation=exact),
        *singles("sec:positionalapplications", POSITIONAL, relation=exact),
        *singles("sec:reconstruction", RECONSTRUCTION, relation=exact),
        *singles("sec:jointexperiment", JOINT, relation=exact),
        *singles("app:jointinitial", INITIAL, relation=exact),
        *singles("app:answerrepair", "shifts per token | 6 | product 2 3", relation=exact),
        *singles("app:answerrepair", CANDIDATES, relation="multiple"),
    ]
