# SPDX-License-Identifier: Apache-2.0
"""Convolutional networks that classify."""

import torch
import torch.nn.functional as F
from torch import nn

from .entered import Calls, Residual, floats, network


def images(channels=3, side=16):
    return floats("image", "batch", channels, side, side)


def convolution(inputs, outputs, size=3, activation=nn.ReLU, norm=nn.BatchNorm2d, **options):
    padding_size = options.pop("padding", options.get("dilation", 1) * (size // 2))
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, padding=padding_size, bias=norm is None, **options),
                         nn.Identity() if norm is None else norm(outputs), activation())


@network
def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
                         nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16 * 25, 120), nn.Tanh(), nn.Linear(120, 10)), \
        [images(1, 24 + 4)]


@network
def alexnet_like():
    return nn.Sequential(nn.Conv2d(3, 16, 7, stride=2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
                         nn.Conv2d(16, 32, 5, padding=2, groups=2), nn.ReLU(), nn.LocalResponseNorm(5),
                         nn.MaxPool2d(3, 2, ceil_mode=True), nn.Flatten(), nn.Linear(32 * 9, 10)), [images(3, 32)]


@network
def vgg_like():
    return nn.Sequential(convolution(3, 8), convolution(8, 8), nn.MaxPool2d(2), convolution(8, 16),
                         convolution(16, 16), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                         nn.Linear(64, 10)), [images()]


@network
def resnet_like():
    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.body = nn.Sequential(convolution(inputs, outputs, stride=stride),
                                      convolution(outputs, outputs, activation=nn.Identity))
            self.short = nn.Identity() if stride == 1 else \
                convolution(inputs, outputs, 1, activation=nn.Identity, stride=stride)

        def forward(self, x):
            return F.relu(self.body(x) + self.short(x))

    return nn.Sequential(convolution(3, 8), Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)), [images()]


@network
def mobilenet_like():
    def block(width, wide):
        return Residual(convolution(width, wide, 1, nn.ReLU6), convolution(wide, wide, 3, nn.ReLU6, groups=wide),
                        convolution(wide, width, 1, nn.Identity))

    return nn.Sequential(convolution(3, 8, 3, nn.Hardswish, stride=2), block(8, 32), block(8, 48),
                         convolution(8, 16, 1, nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(16, 7), nn.Softmax(1)), [images()]


@network
def squeeze_excite():
    def forward(self, x):
        x = self.stem(x)
        return self.head((x * self.gate(x)).mean((2, 3)))

    gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.SiLU(), nn.Conv2d(4, 16, 1), nn.Sigmoid())
    return Calls(forward, stem=convolution(3, 16, 3, nn.SiLU), gate=gate, head=nn.Linear(16, 5)), [images()]


@network
def inception_like():
    def forward(self, x):
        return self.head(torch.cat([each(x) for each in self.branches], 1))

    branches = [convolution(3, 4, 1), nn.Sequential(convolution(3, 4, 1), convolution(4, 6)),
                nn.Sequential(convolution(3, 4, 1), convolution(4, 6, 5)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), convolution(3, 4, 1)),
                nn.Sequential(nn.Conv2d(3, 4, (1, 5), padding=(0, 2)), nn.Conv2d(4, 4, (5, 1), padding=(2, 0)))]
    head = nn.Sequential(nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
                         nn.Linear(24, 10))
    return Calls(forward, branches=nn.ModuleList(branches), head=head), [images()]


@network
def densenet_like():
    def forward(self, x):
        for each in self.layers:
            x = torch.cat([x, each(x)], 1)
        return self.head(x)

    layers = [nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 6, 3, padding=1, bias=False))
              for width in (3, 9, 15)]
    head = nn.Sequential(nn.BatchNorm2d(21), nn.ReLU(), nn.Conv2d(21, 10, 1), nn.AvgPool2d(2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Calls(forward, layers=nn.ModuleList(layers), head=head), [images()]


@network
def shufflenet_like():
    def shuffled(self, x):
        return x.reshape(-1, 3, 4, *x.shape[2:]).transpose(1, 2).flatten(1, 2)

    return nn.Sequential(convolution(3, 12), convolution(12, 12, 1, groups=3), Calls(shuffled),
                         convolution(12, 12, 3, nn.Identity, groups=12, stride=2), convolution(12, 24, 1, groups=3),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)), [images()]


@network
def convnext_like():
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.mix = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.body = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                      nn.Linear(4 * width, width))
            self.scale = nn.Parameter(0.1 * torch.ones(width))

        def forward(self, x):
            return x + (self.scale * self.body(self.mix(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)

    return nn.Sequential(nn.Conv2d(3, 12, 4, 4), nn.GroupNorm(1, 12), Block(12), Block(12),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(12), nn.Linear(12, 10)), [images(3, 32)]


@network
def norms_of_images():
    return nn.Sequential(convolution(3, 12, norm=None), nn.GroupNorm(4, 12), nn.Conv2d(12, 12, 3),
                         nn.InstanceNorm2d(12, affine=True), nn.LeakyReLU(0.1), nn.Conv2d(12, 8, 4, 2),
                         nn.InstanceNorm2d(8), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1, padding_mode="reflect")), \
        [images()]


@network
def conv3d():
    return nn.Sequential(nn.Conv3d(2, 6, 3, padding=1), nn.BatchNorm3d(6), nn.ReLU(), nn.MaxPool3d(2),
                         nn.Conv3d(6, 8, (1, 3, 3)), nn.ReLU(), nn.AvgPool3d(2), nn.Flatten(), nn.Linear(8, 3)), \
        [floats("volume", "batch", 2, 4, 8, 8)]


@network
def wavenet_like():
    def forward(self, x):
        skips = 0
        x = self.first(x)
        for i, (gate, filter_, out) in enumerate(self.layers):
            padded = F.pad(x, (2 ** i, 0))
            y = torch.tanh(filter_(padded)) * torch.sigmoid(gate(padded))
            skips, x = skips + y, x + out(y)
        return self.last(F.relu(skips))

    layers = [nn.ModuleList([nn.Conv1d(8, 8, 2, dilation=2 ** i), nn.Conv1d(8, 8, 2, dilation=2 ** i),
                             nn.Conv1d(8, 8, 1)]) for i in range(4)]
    return Calls(forward, first=nn.Conv1d(1, 8, 1), layers=nn.ModuleList(layers), last=nn.Conv1d(8, 16, 1)), \
        [floats("wave", "batch", 1, "time")]


@network
def weight_norm_conv():
    from torch.nn.utils.parametrizations import weight_norm
    return nn.Sequential(weight_norm(nn.Conv1d(4, 8, 3, padding=1)), nn.ReLU(),
                         weight_norm(nn.Conv1d(8, 8, 3, padding=1, padding_mode="circular")), nn.AdaptiveMaxPool1d(1),
                         nn.Flatten(), nn.Linear(8, 2)), [floats("x", "batch", 4, 20)]
