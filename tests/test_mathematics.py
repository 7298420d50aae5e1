"""The mathematics that a reader sees is made from the statement that is proved."""

import xml.etree.ElementTree as ET
from dataclasses import replace

from proofs.catalogue import entries
from proofs.mathematics import mathml
from proofs.topics.response import RESPONSE

STATEMENTS = {each.name: each for entry in entries() for each in entry.statements}


def words(text: str) -> str:
    """The text of an element without its layout."""
    return "".join(ET.fromstring(text).itertext()).replace("\u2062", "")


def test_every_statement_is_one_well_formed_element() -> None:
    for name, statement in STATEMENTS.items():
        element = ET.fromstring(mathml(statement))
        assert element.tag == "{http://www.w3.org/1998/Math/MathML}math", name
        leaves = [each for each in element.iter() if len(each) == 0]
        assert all(each.text for each in leaves), name


def test_sums_exponentials_and_subscripts_are_written_out() -> None:
    left, right = words(mathml(RESPONSE)).split("=")
    assert left == "−y+∑jedjpj(εj+vj)D"
    assert right == "∑jedjεjpjD+∑jpjφ1,jtj(vj−y)"


def test_a_changed_statement_reads_differently() -> None:
    changed = replace(RESPONSE, rhs=-RESPONSE.rhs)
    assert words(mathml(changed)) != words(mathml(RESPONSE))
