"""A model with one prompt prepared: all that a run of its last token needs."""

from dataclasses import dataclass

from torch import Tensor
from transformers import PreTrainedModel

from finite_calculus.models.prefix import Prefix, SharedLayer
from finite_calculus.models.support import Site


@dataclass(frozen=True, eq=False)
class PreparedPrompt:
    """The model, the sites of its attention in order of layers, and the prompt's untouched prefix."""

    model: PreTrainedModel
    sites: tuple[Site, ...]
    prefix: Prefix

    def run_last(self, *, rows: int = 1, kind: type[SharedLayer] = SharedLayer) -> Tensor:
        """Logits of the last token, (rows, vocabulary); every row reads the one prefix."""
        return self.run_queries(rows=rows, kind=kind)[:, -1]

    def run_queries(self, *, rows: int = 1, kind: type[SharedLayer] = SharedLayer) -> Tensor:
        """Logits of all tokens after the prefix, (rows, queries, vocabulary)."""
        output = self.model(
            input_ids=self.prefix.last.expand(rows, -1),
            past_key_values=self.prefix.cache(kind),
            use_cache=True,
        )
        return output.logits
