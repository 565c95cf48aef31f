# SPDX-License-Identifier: Apache-2.0
"""Small networks of PyTorch, of the kinds that people export. tools/export_pytorch.py exports each."""

import math
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn

NETWORKS = {}


@dataclass
class Input:
    name: str
    dims: tuple  # a number, or the name of a dimension whose length is known at run time
    make: Callable  # of a generator and a shape

    def array(self, generator, sizes):
        return self.make(generator, [sizes.get(each, each) for each in self.dims])


def floats(name, *dims):
    return Input(name, dims, lambda g, shape: g.standard_normal(shape, "float32"))


def integers(name, below, *dims):
    return Input(name, dims, lambda g, shape: g.integers(0, below, shape))


# True at the end of each row, as padding is; the first element is never padding.
def padding(name, *dims):
    def make(generator, shape):
        lengths = generator.integers(1, shape[1] + 1, (shape[0], 1))
        return lengths <= torch.arange(shape[1]).numpy()[None]

    return Input(name, dims, make)


def network(function):
    """Enters a function that gives a module and its inputs."""
    NETWORKS[function.__name__] = function
    return function


class Calls(nn.Module):
    """A module whose forward is a function of its own parts."""

    def __init__(self, function, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


def images(channels=3, side=16):
    return floats("image", "batch", channels, side, side)


def convolution(inputs, outputs, size=3, activation=nn.ReLU, norm=nn.BatchNorm2d, **options):
    padding_size = options.pop("padding", options.get("dilation", 1) * (size // 2))
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, padding=padding_size, bias=norm is None, **options),
                         nn.Identity() if norm is None else norm(outputs), activation())


# Multi-layer perceptrons

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


# Convolutions

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


# Images to images

@network
def unet_transposed():
    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        c = self.join2(torch.cat([self.up2(c), b], 1))
        return self.last(self.join1(torch.cat([self.up1(c), a], 1)))

    return Calls(forward, down1=convolution(3, 8), down2=convolution(8, 16), bottom=convolution(16, 16),
                 up2=nn.ConvTranspose2d(16, 16, 2, 2), join2=convolution(32, 8), up1=nn.ConvTranspose2d(8, 8, 2, 2),
                 join1=convolution(16, 8), last=nn.Conv2d(8, 2, 1)), [floats("image", "batch", 3, "height", "width")]


@network
def unet_bilinear():
    def forward(self, x):
        a = self.down(x)
        b = F.interpolate(self.bottom(F.avg_pool2d(a, 2)), scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(torch.cat([a, b], 1)).argmax(1)

    return Calls(forward, down=convolution(3, 8), bottom=convolution(8, 8), last=nn.Conv2d(16, 4, 1)), [images()]


@network
def upsampling():
    def forward(self, x):
        x = self.first(x)
        return (F.interpolate(x, scale_factor=2.0, mode="nearest"),
                F.interpolate(x, size=(20, 27), mode="bilinear", align_corners=True),
                F.interpolate(x, scale_factor=(1.5, 2.0), mode="bicubic", align_corners=False))

    return Calls(forward, first=nn.Conv2d(3, 4, 3, padding=1)), [images(3, 10)]


@network
def antialiased_thumbnails():
    def forward(self, x):
        small = F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=False, antialias=True)
        return self.head(small), F.interpolate(x, size=(4, 4), mode="bicubic", align_corners=False, antialias=True)

    return Calls(forward, head=nn.Conv2d(3, 2, 3)), [images(3, 14)]


@network
def dilated_pyramid():
    def forward(self, x):
        x = self.stem(x)
        pooled = F.interpolate(self.pool(x), size=x.shape[2:], mode="bilinear", align_corners=False)
        joined = torch.cat([each(x) for each in self.rates] + [pooled], 1)
        return F.interpolate(self.last(joined), scale_factor=2, mode="bilinear", align_corners=False)

    rates = [convolution(8, 6, 3, dilation=rate) for rate in (1, 2, 4)]
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 6, 1), nn.ReLU())
    return Calls(forward, stem=convolution(3, 8, stride=2), rates=nn.ModuleList(rates), pool=pool,
                 last=nn.Conv2d(24, 3, 1)), [images()]


@network
def pixel_shuffle():
    return nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 8, 3, padding=1), nn.ReLU(),
                         nn.Conv2d(8, 9, 3, padding=1), nn.PixelShuffle(3)), \
        [floats("image", "batch", 1, "height", "width")]


@network
def pixel_unshuffle():
    return nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(12, 8, 3, padding=1), nn.PReLU(), nn.ReplicationPad2d(1),
                         nn.Conv2d(8, 12, 3), nn.PixelShuffle(2)), [images()]


@network
def autoencoder():
    return nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, 2, 1), nn.ReLU(),
                         nn.ConvTranspose2d(4, 8, 3, 2, 1, output_padding=1), nn.ReLU(),
                         nn.ConvTranspose2d(8, 1, 3, 2, 1, output_padding=1), nn.Sigmoid()), [images(1)]


@network
def variational_autoencoder():
    def forward(self, x, noise):
        mean, log_variance = self.encode(x).chunk(2, 1)
        return self.decode(mean + noise * torch.exp(0.5 * log_variance)), mean, log_variance

    return Calls(forward, encode=nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 12)),
                 decode=nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 64), nn.Sigmoid())), \
        [floats("x", "batch", 64), floats("noise", "batch", 6)]


@network
def image_generator():
    as_image = Calls(lambda self, x: x.reshape(-1, 16, 4, 4))
    return nn.Sequential(nn.Linear(10, 16 * 16), as_image, nn.BatchNorm2d(16), nn.ReLU(),
                         nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.ConvTranspose2d(8, 8, 3, 1, 2, dilation=2, groups=2), nn.ReLU(),
                         nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh()), [floats("noise", "batch", 10)]


@network
def segnet_unpooling():
    def forward(self, x):
        y, where = F.max_pool2d(self.down(x), 2, return_indices=True)
        return self.up(F.max_unpool2d(self.middle(y), where, 2))

    return Calls(forward, down=convolution(3, 8), middle=convolution(8, 8), up=nn.Conv2d(8, 2, 3, padding=1)), \
        [images()]


@network
def spatial_transformer():
    def forward(self, x):
        theta = self.locate(x).view(-1, 2, 3) + torch.tensor([[1.0, 0, 0], [0, 1, 0]])
        grid = F.affine_grid(theta, [x.shape[0], 2, 12, 12], align_corners=False)
        return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)

    locate = nn.Sequential(nn.Flatten(), nn.Linear(2 * 100, 16), nn.Tanh(), nn.Linear(16, 6))
    return Calls(forward, locate=locate), [images(2, 10)]


# Sequences

@network
def text_cnn():
    def forward(self, tokens):
        x = self.embed(tokens).transpose(1, 2)
        return self.head(torch.cat([F.relu(each(x)).amax(2) for each in self.filters], 1))

    filters = [nn.Conv1d(12, 6, size, padding=size - 1) for size in (2, 3, 4)]
    return Calls(forward, embed=nn.Embedding(100, 12, padding_idx=0), filters=nn.ModuleList(filters),
                 head=nn.Linear(18, 3)), [integers("tokens", 100, "batch", "time")]


@network
def embedding_bag():
    def forward(self, tokens):
        return self.head(self.bag(tokens))

    return Calls(forward, bag=nn.EmbeddingBag(60, 10, mode="mean"), head=nn.Linear(10, 4)), \
        [integers("tokens", 60, "batch", 9)]


@network
def lstm_classifier():
    def forward(self, x):
        outputs, _ = self.lstm(x)
        return self.head(outputs[:, -1])

    return Calls(forward, lstm=nn.LSTM(5, 16, batch_first=True), head=nn.Linear(16, 3)), \
        [floats("x", "batch", "time", 5)]


@network
def lstm_two_ways_deep():
    def forward(self, x, h, c):
        outputs, (h, c) = self.lstm(x, (h, c))
        return outputs, h, c

    return Calls(forward, lstm=nn.LSTM(6, 10, 2, bidirectional=True)), \
        [floats("x", "time", "batch", 6), floats("h", 4, "batch", 10), floats("c", 4, "batch", 10)]


@network
def lstm_projected_steps():
    def forward(self, x):
        h, c = torch.zeros(x.shape[0], 8), torch.zeros(x.shape[0], 8)
        outputs = []
        for i in range(4):
            h, c = self.cell(x[:, i], (h, c))
            outputs.append(self.head(h))
        return torch.stack(outputs, 1)

    return Calls(forward, cell=nn.LSTMCell(3, 8), head=nn.Linear(8, 2)), [floats("x", "batch", 4, 3)]


@network
def gru_two_ways():
    def forward(self, x):
        outputs, h = self.gru(x)
        return self.head(outputs), h

    return Calls(forward, gru=nn.GRU(5, 12, 2, batch_first=True, bidirectional=True), head=nn.Linear(24, 3)), \
        [floats("x", "batch", "time", 5)]


@network
def rnn_tanh_relu():
    def forward(self, x):
        first, _ = self.first(x)
        second, h = self.second(first)
        return second, h

    return Calls(forward, first=nn.RNN(4, 9, batch_first=True, bidirectional=True),
                 second=nn.RNN(18, 7, nonlinearity="relu", batch_first=True)), [floats("x", "batch", "time", 4)]


@network
def sequence_to_sequence():
    def forward(self, source, start):
        _, h = self.encoder(self.embed(source))
        token, words = start, []
        for _ in range(5):
            y, h = self.decoder(self.embed(token), h)
            scores = self.head(y)
            token = scores.argmax(-1)
            words.append(token)
        return torch.cat(words, 1)

    return Calls(forward, embed=nn.Embedding(30, 8), encoder=nn.GRU(8, 16, batch_first=True),
                 decoder=nn.GRU(8, 16, batch_first=True), head=nn.Linear(16, 30)), \
        [integers("source", 30, "batch", "time"), integers("start", 30, "batch", 1)]


@network
def conv_recurrent():
    def forward(self, image):
        columns = self.cnn(image).mean(2).transpose(1, 2)
        return F.log_softmax(self.head(self.rnn(columns)[0]), -1)

    cnn = nn.Sequential(convolution(1, 8), nn.MaxPool2d(2), convolution(8, 12), nn.MaxPool2d((2, 1)))
    return Calls(forward, cnn=cnn, rnn=nn.LSTM(12, 10, bidirectional=True, batch_first=True), head=nn.Linear(20, 11)), \
        [floats("image", "batch", 1, 16, "width")]


# Attention

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

    blocks = [each for _ in range(2) for each in (Residual(nn.RMSNorm(16), Rotary()), Residual(nn.RMSNorm(16), Gated()))]
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
                 encoder=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), head=nn.Linear(16, 10)), [images()]


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


# Heads, graphs, control flow

@network
def detection_head():
    def forward(self, image):
        x = self.stem(image)
        scores, boxes = self.scores(x).flatten(1).sigmoid(), self.boxes(x).flatten(2).transpose(1, 2)
        best, index = torch.topk(scores, 5, 1)
        boxes = torch.gather(boxes, 1, index[..., None].expand(-1, -1, 4))
        return best, torch.cat([boxes[..., :2] - boxes[..., 2:].exp(), boxes[..., :2] + boxes[..., 2:].exp()], -1), index

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
