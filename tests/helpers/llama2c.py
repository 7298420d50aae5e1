"""llama2.c's tokenizer, written out again."""

import itertools


def llama2c_tokens(text: str, vocabulary: dict[str, int], scores: list[float]) -> list[int]:
    """run.c's bpe_encode: bytes for unknown characters, then always the best-scored pair."""
    parts: list[int] = []
    for character in "▁" + text.replace(" ", "▁"):
        token = vocabulary.get(character)
        parts += [token] if token is not None else [byte + 3 for byte in character.encode()]
    names = {n: piece for piece, n in vocabulary.items()}
    while True:
        pairs = [names.get(a, "?") + names.get(b, "?") for a, b in itertools.pairwise(parts)]
        ranked = [(-scores[vocabulary[p]], n) for n, p in enumerate(pairs) if p in vocabulary]
        if not ranked:
            return [1, *parts]
        place = min(ranked)[1]
        parts[place : place + 2] = [vocabulary[pairs[place]]]
