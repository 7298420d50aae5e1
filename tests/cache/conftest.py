"""The captures of the search serve the cache too."""

from tests.search.conftest import (
    _one_thread as _one_thread,
    embedded as embedded,
    family as family,
    llama as llama,
)
