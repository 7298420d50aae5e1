"""The lists of hashes and licences are of the locked packages, all of them."""

import json
import re

from tests.supply import locked

# What may stand in a list of licences: others must be looked at before they are added here.
KNOWN = re.compile(r"MIT|BSD|Apache|PSF|Python Software Foundation|MPL|ISC")


def test_every_locked_package_has_hashes_but_torch() -> None:
    blocks = locked.HASHES.read_text().replace("\\\n", " ").splitlines()
    hashed = dict(block.split()[0].split("==") for block in blocks)
    assert hashed == {name: v for name, v in locked.pins().items() if name not in locked.WITHOUT}
    for block in blocks:
        hashes = block.split()[1:]
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), block
        assert len(set(hashes)) == len(hashes)


def test_hashes_are_those_of_one_version() -> None:
    files = {
        "A_b-1.0-py3-none-any.whl": "1",
        "a-b-1.0.tar.gz": "2",
        "a_b-1.0.1-py3-none-any.whl": "3",
        "a_b-1.0rc1.tar.gz": "4",
        "a_b_c-1.0.tar.gz": "5",
    }
    page = "".join(
        f'<a href="https://x/y/{file}#sha256={digit * 64}">f</a>' for file, digit in files.items()
    )
    assert locked._hashes(page, "a.b", "1.0") == ["1" * 64, "2" * 64]


def test_the_list_of_licences_is_of_what_is_installed_and_each_is_known() -> None:
    saved = json.loads(locked.LICENCES.read_text())
    assert saved == locked.licences()
    odd = {name: licence for name, licence in saved.items() if not KNOWN.search(licence)}
    assert odd == {}
