"""The captures of the search serve the cache too."""

from tests.search.conftest import (
    embedded as embedded,
    family as family,
    llama as llama,
)
