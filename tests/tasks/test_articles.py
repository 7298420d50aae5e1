"""Articles: markup becomes text, prefixes are drawn and never filtered, texts are never kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from finite_calculus.tasks.articles import (
    Article,
    Articles,
    article_prefixes,
    parse_addresses,
    parse_wikipedia,
    plain_text,
    read_folder,
)

DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">
<page><title>One</title><ns>0</ns><revision><text>'''One''' is [[number|a number]].</text></revision></page>
<page><title>Talk</title><ns>1</ns><revision><text>no</text></revision></page>
<page><title>Uno</title><ns>0</ns><redirect title="One"/><revision><text>no</text></revision></page>
</mediawiki>"""


class Words:
    """A tokenizer that knows words alone."""

    def __call__(self, text: str, **how: Any) -> dict[str, list[int]]:
        return {"input_ids": [len(word) for word in text.split()]}


def test_articles_are_read_without_redirects_and_other_namespaces() -> None:
    assert parse_wikipedia(DUMP.encode()) == (Article("One", "One is a number."),)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("a{{t|{{u}}|x}}b", "ab"),
        ("a<ref name=x>y</ref>b<ref name=x />c", "abc"),
        ("a[[File:f.jpg|thumb|of [[x|y]] and z]]b", "ab"),
        ("{| class=x\n|-\n| y\n|}a", "a"),
        ("see [[Page]], [[Page|that]], [https://e.org the site]", "see Page, that, the site"),
        ("''a'' &amp; <b>b</b><!-- c\nd -->", "a & b"),
        ("== Head ==\n* item\ntext\n\n\nmore", "text\nmore"),
    ],
)
def test_markup_becomes_text(markup: str, text: str) -> None:
    assert plain_text(markup) == text


def test_addresses_are_in_order_of_their_years() -> None:
    files = [
        json.dumps({"year": y, "name": n, "text": "t"}).encode()
        for y, n in ((1791, "A"), (1790, "B"))
    ]
    assert [article.name for article in parse_addresses(files)] == ["1790 B", "1791 A"]


def test_a_prefix_is_followed_by_the_token_of_the_article() -> None:
    articles = [
        Article("short", "a bb"),
        Article("long", "a bb ccc dddd"),
        Article("more", "aa b c"),
    ]
    prefixes = article_prefixes(articles, Words(), count=2, tokens=2, seed=0)
    assert {(p.name, p.ids, p.observed) for p in prefixes} == {
        ("long", (1, 2), 3),
        ("more", (2, 1), 1),
    }
    assert article_prefixes(articles, Words(), count=1, tokens=2, seed=0) == prefixes[:1]
    message = r"`contexts` must not exceed the articles with more than 2 tokens, here 2 of 3; got 3"
    with pytest.raises(ValueError, match=message):
        article_prefixes(articles, Words(), count=3, tokens=2, seed=0)


def test_a_users_texts_are_read_and_a_manifest_holds_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`data` must be a folder with texts in files \*\.txt"):
        read_folder(tmp_path)
    (tmp_path / "b.txt").write_text("a secret text")
    (tmp_path / "a.txt").write_text("another")
    articles = read_folder(tmp_path)
    assert [article.name for article in articles.articles] == ["a", "b"]
    assert "secret" not in json.dumps(articles.manifest())
    other = Articles(articles.origin, articles.licence, articles.articles[::-1])
    assert other.manifest() != articles.manifest()
    prefix = article_prefixes(articles.articles, Words(), count=1, tokens=1, seed=0)[0]
    assert set(prefix.manifest()) == {"article", "tokens", "ids_sha256"}
