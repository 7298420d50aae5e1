"""The attention function of the instrument: the module's own eager attention, observed and edited.

The active `Session` travels in a context variable. Without one, or for a module of another model, the
function is the module's eager attention and nothing else.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from finite_calculus.models.support import Site


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What one attention module hands to its attention function.

    Query (rows, heads, queries, width) and key/value (rows, groups, keys, width) are rotated and not
    repeated; `mask` is additive; `options` holds scaling, softcap, sliding_window and the like.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    options: Mapping[str, Any]

    @property
    def scaling(self) -> float:
        """1/τ, by default 1/√width as in the eager functions that allow it to be left out."""
        scaling = self.options.get("scaling")
        return self.query.shape[-1] ** -0.5 if scaling is None else float(scaling)


@dataclass(frozen=True, eq=False)
class Session:
    """What to do at each attention call: `edit` before it, `observe` after it.

    `edit(site, call)` returns the call to run; `observe(site, call, output)` the output to use. The
    module's own eager attention runs between them, unless `attend(site, call)` stands in for it.
    """

    sites: Mapping[int, Site]
    edit: Callable[[Site, AttentionCall], AttentionCall]
    observe: Callable[[Site, AttentionCall, Tensor], Tensor]
    attend: Callable[[Site, AttentionCall], Tensor] | None = None


_ACTIVE: ContextVar[Session | None] = ContextVar("finite_calculus_session", default=None)


def keep_call(site: Site, call: AttentionCall) -> AttentionCall:
    """No edit."""
    return call


def keep_output(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
    """No change of the output."""
    return output


@contextmanager
def active(session: Session) -> Iterator[None]:
    """Make a session the active one for the duration of a block."""
    token = _ACTIVE.set(session)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def attention_of(sites: tuple[Site, ...]) -> Callable[..., tuple[Tensor, Any]]:
    """An attention function for AttentionInterface that serves the given sites."""
    eager = {id(site.module): site.eager for site in sites}

    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **options: Any,
    ) -> tuple[Tensor, Any]:
        session = _ACTIVE.get()
        site = None if session is None else session.sites.get(id(module))
        if session is None or site is None:
            return eager[id(module)](module, query, key, value, attention_mask, **options)
        call = session.edit(site, AttentionCall(query, key, value, attention_mask, options))
        if session.attend is not None:
            return session.observe(site, call, session.attend(site, call)), None
        output, weights = eager[id(module)](
            module, call.query, call.key, call.value, call.mask, **call.options
        )
        return session.observe(site, call, output), weights

    return attention


def by_module(sites: tuple[Site, ...]) -> dict[int, Site]:
    """Sites indexed by the identity of their attention module."""
    return {id(site.module): site for site in sites}
