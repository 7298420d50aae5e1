"""Bad input is refused, naming the argument, the requirement and what came.

Each row of `REFUSED` is one mistake. The rows are called as in production, without jaxtyping, and
together they must reach every `raise` statement of the package.
"""

import re

import pytest

import finite_calculus as fc
from tests.bad_input.inputs import KEYS, WIDTH
from tests.bad_input.refusal import Refusal, place, raise_statements
from tests.bad_input.refused import REFUSED
from tests.helpers.tensors import draw


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("refusal", REFUSED, ids=[refusal.id for refusal in REFUSED])
def test_a_mistake_is_refused_with_the_argument_the_requirement_and_what_came(refusal: Refusal):
    with pytest.raises(
        refusal.error, match="(?s)" + ".*".join(map(re.escape, refusal.says.split(" … ")))
    ):
        refusal.call()


@pytest.mark.usefixtures("unchecked_shapes")
def test_every_raise_of_the_package_is_provoked():
    places = set()
    for refusal in REFUSED:
        with pytest.raises(refusal.error) as caught:
            refusal.call()
        places.add(place(caught.value))
    assert raise_statements() - places == set()


@pytest.mark.usefixtures("unchecked_shapes")
def test_every_mistake_is_caught_by_the_package_and_not_by_torch():
    places = raise_statements()
    for refusal in REFUSED:
        with pytest.raises(refusal.error) as caught:
            refusal.call()
        assert place(caught.value) in places, refusal.id


def test_mistakes_are_listed_once():
    identities = [refusal.id for refusal in REFUSED]
    assert len(identities) == len(set(identities))


def test_shapes_are_enforced_under_pytest():
    with pytest.raises(Exception, match="Type-check error"):
        fc.freeze(draw(KEYS), draw(KEYS + 1, WIDTH))
