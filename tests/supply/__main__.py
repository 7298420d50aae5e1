"""Make the lists of the locked packages again.

python -m tests.supply hashes INDEX     asks a package index, as in https://…/simple
python -m tests.supply licences         asks the installed packages
"""

import json
import sys

from tests.supply import locked


def main(words: list[str]) -> None:
    """Write the list that is named."""
    match words:
        case ["hashes", index]:
            path, text = locked.HASHES, locked.hash_lines(index)
        case ["licences"]:
            path, text = locked.LICENCES, json.dumps(locked.licences(), indent=1) + "\n"
        case _:
            raise SystemExit(f"Say hashes INDEX, or licences; got {' '.join(words) or 'nothing'}.")
    path.write_text(text)
    print(f"wrote {path.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
