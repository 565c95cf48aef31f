# SPDX-License-Identifier: Apache-2.0
"""The 24 networks of the zoo on a GPU: PyTorch's modules with weights by seed, and the shape of an input without its rows.

Networks of tokens take the vectors of their tokens.
"""

import torch
from torch import nn


def vision(name, **arguments):
    import torchvision
    return getattr(torchvision.models, name)(weights=None, **arguments), [3, 224, 224]


def vit_tiny():
    from torchvision.models import VisionTransformer
    return VisionTransformer(224, 16, 12, 3, 192, 768), [3, 224, 224]


class Part(nn.Module):
    """One output of a network that has several."""

    def __init__(self, network, take):
        super().__init__()
        self.network, self.take = network, take

    def forward(self, x):
        return self.take(self.network(x))


def segmentation():
    import torchvision
    made = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None)
    return Part(made, lambda y: y["out"]), [3, 224, 224]


class Vectors(nn.Module):
    """A network of transformers that takes the vectors of its tokens."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(inputs_embeds=x).last_hidden_state


def bert():
    import transformers
    config = transformers.BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                                     attn_implementation="sdpa")
    return Vectors(transformers.BertModel(config)), [128, 256]


class Causal(nn.Module):
    """A block of a generating transformer: norms first, each token sees those before it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inside = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        rows, tokens, width = x.shape
        q, k, v = (each.view(rows, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for each in self.three(self.norms[0](x)).split(width, dim=2))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.inside(self.norms[1](x))


def encoder():
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), [128, 512]


def perceptron(*widths, activation=nn.ReLU, norm=False):
    layers = []
    for into, out in zip(widths, widths[1:-1]):
        layers += [nn.Linear(into, out), *([nn.LayerNorm(out)] if norm else []), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1])), [widths[0]]


class Recurrent(nn.Module):
    """All outputs of the last layer."""

    def __init__(self, kind, inputs, hidden, layers, both_ways):
        super().__init__()
        self.inside = kind(inputs, hidden, layers, batch_first=True, bidirectional=both_ways)

    def forward(self, x):
        return self.inside(x)[0]


def recurrent(kind, inputs, hidden, layers, steps, both_ways=False):
    return Recurrent(kind, inputs, hidden, layers, both_ways), [steps, inputs]


def twice(into, out):
    convolutions = [(nn.Conv2d(a, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()) for a in (into, out)]
    return nn.Sequential(*convolutions[0], *convolutions[1])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([twice(3, 32), twice(32, 64), twice(64, 128)])
        self.middle = twice(128, 256)
        self.up = nn.ModuleList([nn.ConvTranspose2d(a, a // 2, 2, 2) for a in (256, 128, 64)])
        self.after = nn.ModuleList([twice(a, a // 2) for a in (256, 128, 64)])
        self.last = nn.Conv2d(32, 2, 1)

    def forward(self, x):
        kept = []
        for each in self.down:
            x = each(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for up, after in zip(self.up, self.after):
            x = after(torch.cat([up(x), kept.pop()], 1))
        return self.last(x)


class Gated(nn.Module):
    """Dilated convolutions of one dimension, gated, each added to what it reads."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 64, 3, padding=1)
        self.a, self.b = (nn.ModuleList([nn.Conv1d(64, 64, 3, dilation=2**i, padding=2**i) for i in range(8)])
                          for _ in range(2))
        self.after = nn.ModuleList([nn.Conv1d(64, 64, 1) for _ in range(8)])
        self.last = nn.Conv1d(64, 16, 1)

    def forward(self, x):
        x = self.first(x)
        for a, b, after in zip(self.a, self.b, self.after):
            x = x + after(torch.tanh(a(x)) * torch.sigmoid(b(x)))
        return self.last(torch.relu(x))


NETWORKS = {
    "resnet18": lambda: vision("resnet18"),
    "resnet50": lambda: vision("resnet50"),
    "mobilenet_v2": lambda: vision("mobilenet_v2"),
    "mobilenet_v3_small": lambda: vision("mobilenet_v3_small"),
    "efficientnet_b0": lambda: vision("efficientnet_b0"),
    "shufflenet_v2": lambda: vision("shufflenet_v2_x1_0"),
    "squeezenet1_1": lambda: vision("squeezenet1_1"),
    "regnet_y_400mf": lambda: vision("regnet_y_400mf"),
    "densenet121": lambda: vision("densenet121"),
    "convnext_tiny": lambda: vision("convnext_tiny"),
    "swin_t": lambda: vision("swin_t"),
    "vit_tiny": vit_tiny,
    "lraspp_mobilenet_v3": segmentation,
    "unet": lambda: (UNet(), [3, 128, 128]),
    "gated_1d": lambda: (Gated(), [1, 4000]),
    "encoder_4x512": encoder,
    "bert_4x256": bert,
    "causal_4x256": lambda: (nn.Sequential(*[Causal(256, 4) for _ in range(4)], nn.LayerNorm(256)), [64, 256]),
    "gru_128": lambda: recurrent(nn.GRU, 128, 128, 1, 50),
    "lstm_2x128": lambda: recurrent(nn.LSTM, 128, 128, 2, 100),
    "bilstm_96": lambda: recurrent(nn.LSTM, 40, 96, 1, 60, both_ways=True),
    "lstm_512": lambda: recurrent(nn.LSTM, 64, 512, 1, 20),
    "mlp_norm_gelu": lambda: perceptron(128, 256, 256, 16, activation=nn.GELU, norm=True),
    "mlp_784": lambda: perceptron(784, 512, 512, 10),
}


def made(name):
    """In f32 on the host. All weights differ: some networks begin with layers that are equal, or that give zeros."""
    torch.manual_seed(7)
    network, shape = NETWORKS[name]()
    for each in network.parameters():
        if each.dim() > 1:
            nn.init.xavier_uniform_(each)
    return network.eval(), shape


def export(name, path):
    network, shape = made(name)
    with torch.no_grad():
        torch.onnx.export(network, (torch.zeros([2, *shape]),), path, dynamo=False, opset_version=17, input_names=["x"],
                          output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
