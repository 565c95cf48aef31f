# SPDX-License-Identifier: Apache-2.0
"""Transformers and other networks with attention."""

import torch
import torch.nn.functional as F
from torch import nn

from .convolutions import images
from .entered import Calls, Residual, floats, integers, network, padding


@network
def transformer_encoder():
    def forward(self, x, padded):
        return self.encoder(x, src_key_padding_mask=padded)

    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
    return Calls(forward, encoder=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)), \
        [floats("x", "batch", "time", 16), padding("padded", "batch", "time")]


@network
def transformer_decoder():
    def forward(self, x, memory):
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), 1)
        return self.decoder(x, memory, tgt_mask=mask, tgt_is_causal=False)

    layer = nn.TransformerDecoderLayer(16, 2, 24, batch_first=True, norm_first=True)
    return Calls(forward, decoder=nn.TransformerDecoder(layer, 2)), \
        [floats("x", "batch", "time", 16), floats("memory", "batch", "source", 16)]


@network
def attention_weights():
    def forward(self, query, keys):
        return self.attention(query, keys, keys, need_weights=True)

    return Calls(forward, attention=nn.MultiheadAttention(12, 3, kdim=8, vdim=8, batch_first=True)), \
        [floats("query", "batch", "queries", 12), floats("keys", "batch", "time", 8)]


class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.inward, self.outward = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (each.reshape(*each.shape[:2], self.heads, -1).transpose(1, 2)
                   for each in self.inward(x).chunk(3, -1))
        return self.outward(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


@network
def gpt_like():
    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        scores = F.linear(self.norm(self.blocks(x)), self.words.weight)
        return scores, scores[:, -1].argmax(-1)

    def block():
        return nn.Sequential(Residual(nn.LayerNorm(16), CausalAttention(16, 4)),
                             Residual(nn.LayerNorm(16), nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)))

    return Calls(forward, words=nn.Embedding(40, 16), places=nn.Embedding(32, 16),
                 blocks=nn.Sequential(block(), block()), norm=nn.LayerNorm(16)), \
        [integers("tokens", 40, "batch", "time")]


@network
def llama_like():
    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.out = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 16)

        @staticmethod
        def turn(x, cos, sin):
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        def forward(self, x):
            angles = torch.arange(x.shape[1])[:, None] / 10000 ** (torch.arange(2) / 2)
            angles = torch.cat([angles, angles], -1)
            q, k, v = (f(x).unflatten(-1, (-1, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
            q, k = self.turn(q, angles.cos(), angles.sin()), self.turn(k, angles.cos(), angles.sin())
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up, self.down = nn.Linear(16, 40), nn.Linear(16, 40), nn.Linear(40, 16)

        def forward(self, x):
            return self.down(F.silu(self.gate(x)) * self.up(x))

    blocks = [Residual(nn.RMSNorm(16), each()) for _ in range(2) for each in (Rotary, Gated)]
    return nn.Sequential(nn.Embedding(40, 16), *blocks, nn.RMSNorm(16), nn.Linear(16, 40, bias=False)), \
        [integers("tokens", 40, "batch", "time")]


@network
def vision_transformer():
    def forward(self, image):
        patches = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(image.shape[0], -1, -1), patches], 1) + self.places
        return self.head(self.encoder(x)[:, 0])

    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu")
    return Calls(forward, patches=nn.Conv2d(3, 16, 4, 4), first=nn.Parameter(torch.randn(1, 1, 16)),
                 places=nn.Parameter(torch.randn(1, 17, 16)),
                 encoder=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), head=nn.Linear(16, 10)), \
        [images()]


@network
def shifted_windows():
    def forward(self, x):
        shifted = torch.roll(x, (-2, -2), (1, 2))
        windows = shifted.reshape(-1, 2, 4, 2, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 8)
        windows = self.attention(windows, windows, windows, need_weights=False)[0]
        back = windows.reshape(-1, 2, 2, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(-1, 8, 8, 8)
        return x + torch.roll(back, (2, 2), (1, 2))

    return Calls(forward, attention=nn.MultiheadAttention(8, 2, batch_first=True)), [floats("x", "batch", 8, 8, 8)]


@network
def mlp_mixer():
    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(12), nn.LayerNorm(12)])
            self.tokens = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16))
            self.channels = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))

        def forward(self, x):
            x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norms[1](x))

    def forward(self, image):
        return self.head(self.mixers(self.patches(image).flatten(2).transpose(1, 2)).mean(1))

    return Calls(forward, patches=nn.Conv2d(3, 12, 4, 4), mixers=nn.Sequential(Mixer(), Mixer()),
                 head=nn.Linear(12, 5)), [images()]


@network
def linear_attention():
    def forward(self, x):
        q, k, v = self.inward(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        context = torch.einsum("btd,bte->bde", k, v)
        scale = 1 / torch.einsum("btd,bd->bt", q, k.sum(1))
        return torch.einsum("btd,bde,bt->bte", q, context, scale)

    return Calls(forward, inward=nn.Linear(10, 30)), [floats("x", "batch", "time", 10)]


@network
def decoder_step_with_cache():
    def forward(self, x, keys, values):
        q, k, v = (each.reshape(each.shape[0], 1, 2, 8).transpose(1, 2) for each in self.inward(x).chunk(3, -1))
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        y = F.scaled_dot_product_attention(q, keys, values)
        return self.outward(y.transpose(1, 2).flatten(2)), keys, values

    return Calls(forward, inward=nn.Linear(16, 48), outward=nn.Linear(16, 16)), \
        [floats("x", "batch", 1, 16), floats("keys", "batch", 2, "time", 8), floats("values", "batch", 2, "time", 8)]
