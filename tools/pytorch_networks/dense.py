# SPDX-License-Identifier: Apache-2.0
"""Multi-layer perceptrons and what is made of them."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .entered import Calls, floats, integers, network


@network
def mlp_relu():
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5)), \
        [floats("x", "batch", 20)]


@network
def mlp_tanh_sigmoid():
    return nn.Sequential(nn.Linear(12, 33), nn.Tanh(), nn.Linear(33, 3), nn.Sigmoid()), [floats("x", "batch", 12)]


@network
def mlp_norms_dropout():
    return nn.Sequential(nn.Linear(16, 48), nn.LayerNorm(48), nn.GELU(), nn.Dropout(0.3), nn.Linear(48, 24),
                         nn.BatchNorm1d(24), nn.GELU("tanh"), nn.Linear(24, 4), nn.LogSoftmax(-1)), \
        [floats("x", "batch", 16)]


@network
def activations():
    chosen = [nn.ReLU6(), nn.ELU(0.7), nn.SELU(), nn.CELU(1.3), nn.SiLU(), nn.Mish(), nn.Hardswish(), nn.Hardsigmoid(),
              nn.Softplus(2.0, 5.0), nn.Softsign(), nn.LeakyReLU(0.2), nn.PReLU(30), nn.LogSigmoid(), nn.Hardshrink(),
              nn.Softshrink(0.3), nn.Tanhshrink(), nn.Hardtanh(-0.7, 0.9), nn.GLU()]

    def forward(self, x):
        return torch.cat([each(self.dense(x)) for each in self.chosen], 1)

    return Calls(forward, dense=nn.Linear(10, 30), chosen=nn.ModuleList(chosen)), [floats("x", "batch", 10)]


@network
def two_towers():
    def forward(self, left, right):
        a, b = self.left(left), self.right(right)
        distances = (a[:, None] - b[None]).square().sum(-1).sqrt()
        return F.cosine_similarity(a, b), distances

    return Calls(forward, left=nn.Linear(9, 16), right=nn.Linear(7, 16)), \
        [floats("left", "batch", 9), floats("right", "batch", 7)]


@network
def bilinear():
    return nn.Bilinear(9, 7, 3), [floats("left", "batch", 9), floats("right", "batch", 7)]


@network
def recommender():
    def forward(self, users, items, dense):
        u, i = self.users(users), self.items(items)
        factors = torch.stack([u, i, self.dense(dense)], 1)
        pairs = torch.bmm(factors, factors.transpose(1, 2))
        upper = pairs[:, [0, 0, 1], [1, 2, 2]]
        return torch.sigmoid(self.top(torch.cat([upper, u * i], 1))).squeeze(1)

    return Calls(forward, users=nn.Embedding(50, 8), items=nn.Embedding(80, 8), dense=nn.Linear(6, 8),
                 top=nn.Linear(11, 1)), \
        [integers("users", 50, "batch"), integers("items", 80, "batch"), floats("dense", "batch", 6)]


@network
def fourier_features():
    def forward(self, points):
        scaled = points[..., None] * (2.0 ** torch.arange(6)) * math.pi
        features = torch.cat([points, scaled.sin().flatten(-2), scaled.cos().flatten(-2)], -1)
        color = self.body(features)
        return torch.sigmoid(color[..., :3]), F.softplus(color[..., 3])

    return Calls(forward, body=nn.Sequential(nn.Linear(39, 32), nn.ReLU(), nn.Linear(32, 4))), \
        [floats("points", "rays", "samples", 3)]


@network
def mixture_of_experts():
    def forward(self, x):
        weights, chosen = torch.topk(torch.softmax(self.gate(x), -1), 2)
        weights = weights / weights.sum(-1, keepdim=True)
        outputs = torch.stack([each(x) for each in self.experts], 1)
        picked = torch.gather(outputs, 1, chosen[..., None].expand(-1, -1, outputs.shape[-1]))
        return (picked * weights[..., None]).sum(1), chosen

    experts = [nn.Sequential(nn.Linear(12, 24), nn.SiLU(), nn.Linear(24, 12)) for _ in range(4)]
    return Calls(forward, gate=nn.Linear(12, 4), experts=nn.ModuleList(experts)), [floats("x", "batch", 12)]
