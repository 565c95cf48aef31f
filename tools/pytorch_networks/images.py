# SPDX-License-Identifier: Apache-2.0
"""Networks that give images."""

import torch
import torch.nn.functional as F
from torch import nn

from .convolutions import convolution, images
from .entered import Calls, floats, network


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
