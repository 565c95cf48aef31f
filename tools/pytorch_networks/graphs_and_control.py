# SPDX-License-Identifier: Apache-2.0
"""Heads of detectors, graphs, sets, loops and conditions, other element types."""

import torch
import torch.nn.functional as F
from torch import nn

from .convolutions import convolution, images
from .entered import Calls, Input, floats, integers, network, padding


@network
def detection_head():
    def forward(self, image):
        x = self.stem(image)
        scores, boxes = self.scores(x).flatten(1).sigmoid(), self.boxes(x).flatten(2).transpose(1, 2)
        best, index = torch.topk(scores, 5, 1)
        boxes = torch.gather(boxes, 1, index[..., None].expand(-1, -1, 4))
        centre, half = boxes[..., :2], boxes[..., 2:].exp()
        return best, torch.cat([centre - half, centre + half], -1), index

    return Calls(forward, stem=convolution(3, 8, stride=2), scores=nn.Conv2d(8, 1, 1), boxes=nn.Conv2d(8, 4, 1)), \
        [images()]


@network
def graph_convolution():
    def forward(self, x, edges):
        for layer in self.layers:
            messages = layer(x)[edges[0]]
            sums = torch.zeros(x.shape[0], messages.shape[1]).index_add(0, edges[1], messages)
            degree = torch.zeros(x.shape[0]).scatter_add(0, edges[1], torch.ones_like(edges[1], dtype=torch.float32))
            x = F.relu(sums / degree.clamp(min=1)[:, None])
        return x.mean(0)

    return Calls(forward, layers=nn.ModuleList([nn.Linear(6, 12), nn.Linear(12, 4)])), \
        [floats("nodes", 15, 6), integers("edges", 15, 2, "edge")]


@network
def masked_set():
    def forward(self, x, padded):
        y = self.inner(x).masked_fill(padded[..., None], 0)
        mean = y.sum(1) / (~padded).sum(1, keepdim=True)
        most = self.inner(x).masked_fill(padded[..., None], -1e9).amax(1)
        return self.outer(torch.cat([mean, most], 1))

    return Calls(forward, inner=nn.Sequential(nn.Linear(4, 12), nn.ReLU()), outer=nn.Linear(24, 2)), \
        [floats("x", "batch", "time", 4), padding("padded", "batch", "time")]


@network
def neural_ode():
    def forward(self, y):
        step = 0.1
        for _ in range(6):
            k1 = self.slope(y)
            k2 = self.slope(y + step / 2 * k1)
            k3 = self.slope(y + step / 2 * k2)
            y = y + step / 6 * (k1 + 2 * k2 + 2 * k3 + self.slope(y + step * k3))
        return y

    return Calls(forward, slope=nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))), [floats("y", "batch", 3)]


@network
def sorting_and_sums():
    def forward(self, x):
        ordered, places = torch.sort(self.dense(x), -1, descending=True)
        pieces = torch.bucketize(x, torch.linspace(-2, 2, 7))
        return ordered.cumsum(-1), places, F.one_hot(pieces, 8).float().mean(1), ordered.std(-1), ordered.norm(dim=-1)

    return Calls(forward, dense=nn.Linear(8, 12)), [floats("x", "batch", 8)]


@network
def condition():
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: torch.sin(y) + 1, lambda y: torch.cos(y) * 2, (self.dense(x),))

    return Calls(forward, dense=nn.Linear(6, 6)), [floats("x", "batch", 6)]


@network
def while_loop():
    class Doubles(nn.Module):
        def forward(self, x):
            def again(i, y):
                return y.abs().sum() < 1000

            def body(i, y):
                return i + 1, y * 2

            return torch._higher_order_ops.while_loop(again, body, (torch.tensor(0), x))

    return Doubles(), [floats("x", "batch", 6)]


class Newton(nn.Module):
    def forward(self, x):
        y = torch.ones_like(x)
        steps = 0
        while bool((y * y - x).abs().max() > 1e-4):
            y = (y + x / y) / 2
            steps += 1
        if steps > 3:
            y = -y
        return y, torch.tensor(steps)


@network
def scripted_loop():
    return torch.jit.script(Newton()), [Input("x", ("batch", 3), lambda g, shape: g.uniform(1, 9, shape).astype("f4"))]


@network
def spectrogram():
    def forward(self, wave):
        spectrum = torch.stft(wave, 64, 16, window=torch.hann_window(64), center=False, return_complex=True)
        power = torch.view_as_real(spectrum).square().sum(-1)
        return self.head(torch.log(power + 1e-3).mean(2))

    return Calls(forward, head=nn.Linear(33, 4)), [floats("wave", "batch", 256)]


@network
def half_precision():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).half(), \
        [Input("x", ("batch", 16), lambda g, shape: g.standard_normal(shape).astype("float16"))]


@network
def double_precision():
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8)).double(), \
        [Input("x", ("batch", 16), lambda g, shape: g.standard_normal(shape))]
