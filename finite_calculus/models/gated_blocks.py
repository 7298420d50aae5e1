"""First and second derivatives of the parts of a Llama block, in closed form, for many directions at once.

A block is x → x + W_o A(N x) =: z → z + W_d(silu(W_g N z) ∘ W_u N z), with RMS norms N and attention A of the
last token over a prefix that does not move. Of each part f at one baseline point: `along` pushes directions t
up, f't; `back` pulls slopes s down, f'ᵀs. Where f bends, the slope of the baseline, λ, adds what f'ᵀλ does
when the point moves along t. Rows of slopes carry λ as their last row, so that weights are read once.
Biases drop out. `finite_calculus.models.hessian` has the same for any model from torch's own derivatives.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finite_calculus.models.baseline import batch_baseline
from finite_calculus.models.prompt import PreparedPrompt

# Models whose code is the one above, if their attention slides nowhere.
_MODELS = ("LlamaForCausalLM", "Qwen2ForCausalLM")


def has_gated_blocks(prompt: PreparedPrompt) -> bool:
    """Whether the model is one of these, in float32, with nothing of it replaced or hooked."""
    model: Any = prompt.model
    known = type(model).__name__ in _MODELS and type(model).__module__.startswith("transformers.")
    if not known or model.dtype != torch.float32 or type(model.lm_head) is not nn.Linear:
        return False
    home = type(model).__module__
    for module in model.modules():
        kind = type(module)
        own = kind.__module__ == home or kind.__module__.startswith(("torch.nn.", "transformers."))
        hooked = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
        if not own or hooked:
            return False
    return all(
        type(site.block.mlp.act_fn).__name__ in ("SiLU", "SiLUActivation")  # pyright: ignore[reportAttributeAccessIssue]
        and getattr(site.module, "sliding_window", None) is None
        for site in prompt.sites
    )


def rank_one(
    rows: Float[Tensor, "rows n"],
    scale: Float[Tensor, " n"],
    seen: Float[Tensor, " n"],
    out: Float[Tensor, " n"],
) -> Float[Tensor, "rows n"]:
    """Rows times diag(scale) + seen·outᵀ."""
    return torch.addmm(rows * scale, rows @ seen.unsqueeze(-1), out.unsqueeze(0))


@dataclass(frozen=True, eq=False)
class Norm:
    """N x = w ∘ r x with r = (mean x² + ε)^−½, at the point x."""

    point: Float[Tensor, " n"]
    weight: Float[Tensor, " n"]
    scale: Float[Tensor, ""]

    @classmethod
    def of(cls, module: Any, point: Float[Tensor, " n"]) -> "Norm":
        """A norm of a model, at a point."""
        scale = torch.rsqrt(point.square().mean() + module.variance_epsilon)
        return cls(point, module.weight, scale)

    @property
    def value(self) -> Float[Tensor, " n"]:
        """N x."""
        return self.weight * (self.scale * self.point)

    @property
    def _cube(self) -> Tensor:
        return self.scale**3 / len(self.point)

    def along(self, rows: Float[Tensor, "rows n"]) -> Float[Tensor, "rows n"]:
        """N't."""
        bend = -self._cube * self.weight * self.point
        return rank_one(rows, self.scale * self.weight, self.point, bend)

    def back(self, rows: Float[Tensor, "rows n"]) -> Float[Tensor, "rows n"]:
        """N'ᵀs."""
        seen = -self._cube * self.weight * self.point
        return rank_one(rows, self.scale * self.weight, seen, self.point)

    def bent(
        self, rows: Float[Tensor, "rows n"], slope: Float[Tensor, " n"]
    ) -> Float[Tensor, "rows n"]:
        """The derivative of N'ᵀλ along t, with u = w ∘ λ.

        −r³/n (⟨x,t⟩ u + ⟨u,t⟩ x + ⟨u,x⟩ t) + 3r⁵/n² ⟨u,x⟩ ⟨x,t⟩ x
        """
        seen = self.weight * slope
        both = torch.dot(seen, self.point)
        twice = 3 * self._cube * self.scale.square() / len(self.point) * both
        out = torch.stack([twice * self.point - self._cube * seen, -self._cube * self.point])
        inner = rows @ torch.stack([self.point, seen], -1)
        return torch.addmm(rows * (-self._cube * both), inner, out)


@dataclass(frozen=True, eq=False)
class Gate:
    """silu(a) ∘ b at the points a and b."""

    gate: Float[Tensor, " n"]
    up: Float[Tensor, " n"]

    def _derivatives(self) -> tuple[Tensor, Tensor, Tensor]:
        """silu, silu' and silu'' of a."""
        part = torch.sigmoid(self.gate)
        first = part * (1 + self.gate * (1 - part))
        second = part * (1 - part) * (2 + self.gate * (1 - 2 * part))
        return self.gate * part, first, second

    def along(
        self, gates: Float[Tensor, "rows n"], ups: Float[Tensor, "rows n"]
    ) -> Float[Tensor, "rows n"]:
        """The derivative along directions of a and of b."""
        value, first, _ = self._derivatives()
        return torch.addcmul(gates * (first * self.up), ups, value)

    def back(
        self,
        slopes: Float[Tensor, "slopes n"],
        gates: Float[Tensor, "rows n"],
        ups: Float[Tensor, "rows n"],
    ) -> tuple[Float[Tensor, "slopes n"], Float[Tensor, "slopes n"]]:
        """Slopes of a and of b."""
        value, first, second = self._derivatives()
        own = slopes[-1]
        to_gate, to_up = slopes * (first * self.up), slopes * value
        to_gate[:-1].addcmul_(gates, own * second * self.up).addcmul_(ups, own * first)
        to_up[:-1].addcmul_(gates, own * first)
        return to_gate, to_up


@dataclass(frozen=True, eq=False)
class MovedAttention:
    """Directions of queries, keys and values after rotation."""

    query: Float[Tensor, "groups rows heads width"]
    key: Float[Tensor, "groups rows 1 width"]
    value: Float[Tensor, "groups rows 1 width"]


@dataclass(frozen=True, eq=False)
class Attention:
    """softmax(τ q·K) V of the last token, whose own key and value are the last of K and V.

    `turn` is the rotation at its position: rows of a head times it are rotated.
    """

    query: Float[Tensor, "groups 1 heads width"]
    keys: Float[Tensor, "groups keys width"]
    values: Float[Tensor, "groups keys width"]
    scaling: float
    turn: Float[Tensor, "width width"]

    @classmethod
    def of(
        cls, prompt: PreparedPrompt, number: int, turn: Float[Tensor, "width width"]
    ) -> "Attention":
        """The attention of a layer of the baseline."""
        own, site = batch_baseline(prompt, 1).layers[number], prompt.sites[number]
        prefix: Any = prompt.prefix.layers[number]
        module: Any = site.module
        keys = torch.cat([prefix.keys[0], own.key[0].unsqueeze(1)], 1)
        values = torch.cat([prefix.values[0], own.value[0].unsqueeze(1)], 1)
        query = own.query[0].unflatten(0, (len(keys), -1)).unsqueeze(1)
        return cls(query, keys, values, float(module.scaling), turn)

    def along(
        self, queries: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Float[Tensor, "rows outputs"], MovedAttention]:
        """The derivative of y along directions of the projected query, key and value, heads side by side."""
        query, key = self._heads(queries) @ self.turn, self._heads(keys) @ self.turn
        moved, probs = MovedAttention(query, key, self._heads(values)), self._probs()
        output = self._over(self._moved_probs(moved), self.values) + probs[..., -1:] * moved.value
        return _side_by_side(output), moved

    def back(
        self, slopes: Float[Tensor, "slopes outputs"], moved: MovedAttention
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Slopes of the projected query, key and value."""
        down, probs = self._heads(slopes), self._probs()
        own = down[:, -1:]
        to_probs = self._over(down, self.values.mT)
        to_probs[:, :-1, :, -1] += (own * moved.value).sum(-1)
        to_scores = probs * (to_probs - (probs * to_probs).sum(-1, keepdim=True))
        centred = to_probs[:, -1:] - (probs * to_probs[:, -1:]).sum(-1, keepdim=True)
        moved_probs = self._moved_probs(moved)
        bent = moved_probs * centred
        to_scores[:, :-1] += bent - probs * bent.sum(-1, keepdim=True)
        to_scores = to_scores * self.scaling
        last, own_last = to_scores[..., -1:], to_scores[:, -1:, :, -1:]
        to_query = self._over(to_scores, self.keys)
        to_query[:, :-1] += own_last * moved.key
        to_key = (last * self.query).sum(2, keepdim=True)
        to_key[:, :-1] += (own_last * moved.query).sum(2, keepdim=True)
        to_value = (probs[..., -1:] * down).sum(2, keepdim=True)
        to_value[:, :-1] += (moved_probs[..., -1:] * own).sum(2, keepdim=True)
        to_query, to_key = to_query @ self.turn.T, to_key @ self.turn.T
        return _side_by_side(to_query), _side_by_side(to_key), _side_by_side(to_value)

    def _probs(self) -> Float[Tensor, "groups 1 heads keys"]:
        return torch.softmax(self._over(self.query, self.keys.mT) * self.scaling, -1)

    def _moved_probs(self, moved: MovedAttention) -> Float[Tensor, "groups rows heads keys"]:
        """Twice computed and never kept: with many keys they would be most of the memory."""
        scores, probs = self._over(moved.query, self.keys.mT), self._probs()
        scores[..., -1] += (moved.key * self.query).sum(-1)
        scores *= self.scaling
        return probs * (scores - (probs * scores).sum(-1, keepdim=True))

    def _heads(
        self, rows: Float[Tensor, "rows outputs"]
    ) -> Float[Tensor, "groups rows heads width"]:
        groups, _, width = self.keys.shape
        return rows.unflatten(-1, (groups, -1, width)).movedim(0, 1)

    @staticmethod
    def _over(
        rows: Float[Tensor, "groups rows heads a"], matrix: Float[Tensor, "groups a b"]
    ) -> Tensor:
        return torch.bmm(rows.flatten(1, 2), matrix).unflatten(1, rows.shape[1:3])


def rotation(prompt: PreparedPrompt) -> Float[Tensor, "width width"]:
    """The rotation at the last position, as a matrix that rows of a head are multiplied by."""
    module: Any = prompt.sites[0].module
    model: Any = prompt.model.base_model
    turned = type(module).forward.__globals__["apply_rotary_pos_emb"]
    unit = torch.eye(module.head_dim, device=prompt.prefix.ids.device).unsqueeze(1).unsqueeze(0)
    place = torch.tensor([[len(prompt.prefix.ids) - 1]], device=unit.device)
    return turned(unit, unit, *model.rotary_emb(unit, place))[0][0, :, 0]


def _side_by_side(rows: Float[Tensor, "groups rows heads width"]) -> Float[Tensor, "rows outputs"]:
    return rows.movedim(1, 0).flatten(1)
