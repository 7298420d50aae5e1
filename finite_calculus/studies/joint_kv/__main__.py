"""The paper's standalone form, `python -m finite_calculus.studies.joint_kv --batch 32 --out DIR`.

The same as `finite-calculus run joint-kv`, options and all, of the paper's initial single-layer design unless
`--design` says otherwise.
"""

import sys

from finite_calculus.entry import main

if __name__ == "__main__":
    sys.argv[1:1] = ["run", "joint-kv"]
    if not any(word.partition("=")[0] == "--design" for word in sys.argv):
        sys.argv += ["--design", "initial"]
    main()
