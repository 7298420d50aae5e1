"""Prefixes of articles as tokens: Wikipedia articles, State of the Union addresses, a user's own texts.

What is kept of a text is its name and a hash. Where the files come from is not this file's affair.
"""

import html
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from finite_calculus.provenance.digests import digest


@dataclass(frozen=True)
class Article:
    """One text and its name."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class Articles:
    """Texts of one origin, with the licence under which it gives them."""

    origin: str
    licence: str
    articles: tuple[Article, ...] = field(repr=False)

    def manifest(self) -> dict[str, str]:
        """Origin, licence and a hash of all texts."""
        texts = [[article.name, article.text] for article in self.articles]
        return {"origin": self.origin, "licence": self.licence, "sha256": digest(texts)}


@dataclass(frozen=True)
class ArticlePrefix:
    """The first tokens of an article, and the token that follows them in it."""

    name: str
    ids: tuple[int, ...] = field(repr=False)
    observed: int

    def manifest(self) -> dict[str, Any]:
        """Name, length, and a hash of the tokens."""
        hashed = digest([*self.ids, self.observed])
        return {"article": self.name, "tokens": len(self.ids), "ids_sha256": hashed}


def read_folder(folder: Path) -> Articles:
    """Every `*.txt` of a folder, by name."""
    files = sorted(folder.glob("*.txt")) if folder.is_dir() else []
    if not files:
        raise ValueError(
            f"`data` must be a folder with texts in files *.txt; {folder.name} has none. Put at least one in."
        )
    texts = tuple(Article(path.stem, path.read_text(encoding="utf-8")) for path in files)
    return Articles(f"{len(files)} texts of the user", "not known here", texts)


def parse_wikipedia(dump: bytes) -> tuple[Article, ...]:
    """The articles of a MediaWiki export as plain text; redirects and other namespaces are left out."""
    root = ElementTree.fromstring(dump)
    space = root.tag.partition("}")[0] + "}"
    pages = [
        Article(
            page.findtext(f"{space}title", ""), plain_text(page.findtext(f".//{space}text", ""))
        )
        for page in root.iter(f"{space}page")
        if page.findtext(f"{space}ns") == "0" and page.find(f"{space}redirect") is None
    ]
    return tuple(pages)


def parse_addresses(files: Iterable[bytes]) -> tuple[Article, ...]:
    """State of the Union addresses from their JSON files, in order of the years."""
    read = [json.loads(blob) for blob in files]
    read.sort(key=lambda address: (address["year"], address["name"]))
    return tuple(Article(f"{a['year']} {a['name']}", str(a["text"])) for a in read)


def plain_text(markup: str) -> str:
    """Wiki markup without templates, tables, references, files and headings; of links the words stay."""
    text = re.sub(
        r"<!--.*?-->|<ref[^>/]*/>|<ref.*?</ref>|<math.*?</math>", "", markup, flags=re.DOTALL
    )
    for pattern in (r"\{\{[^{}]*\}\}", r"\{\|(?:(?!\{\|).)*?\|\}"):
        text = _without_nested(pattern, text)
    text = _without_nested(
        r"\[\[(?:File|Image|Category):[^\[\]]*(?:\[\[[^\[\]]*\]\][^\[\]]*)*\]\]", text
    )
    text = re.sub(r"\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]", r"\1", text)
    text = re.sub(r"\[https?://\S+ ?([^\]]*)\]", r"\1", text)
    text = re.sub(r"'{2,}|<[^<>]+>|^[=*#:;].*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\s*\n\s*", "\n", html.unescape(text)).strip()


def article_prefixes(
    articles: Sequence[Article], tokenizer: Any, *, count: int, tokens: int, seed: int
) -> tuple[ArticlePrefix, ...]:
    """The first `count` articles of a drawn order that have more tokens than a prefix takes."""
    order = np.random.default_rng(np.random.SeedSequence([seed, 6])).permutation(len(articles))
    prefixes: list[ArticlePrefix] = []
    for number in order.tolist():
        article = articles[number]
        ids = tokenizer(article.text, verbose=False)["input_ids"]
        if len(ids) > tokens:
            prefixes.append(ArticlePrefix(article.name, tuple(ids[:tokens]), int(ids[tokens])))
        if len(prefixes) == count:
            return tuple(prefixes)
    raise ValueError(
        f"`contexts` must not exceed the articles with more than {tokens} tokens, here {len(prefixes)} "
        f"of {len(articles)}; got {count}. Ask for fewer, for shorter prefixes, or give longer texts."
    )


def _without_nested(pattern: str, text: str) -> str:
    """The text without what matches, from the inside out."""
    while True:
        shorter = re.sub(pattern, "", text, flags=re.DOTALL)
        if shorter == text:
            return text
        text = shorter
