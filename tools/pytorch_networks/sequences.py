# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks, and convolutions over text."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .convolutions import convolution
from .entered import Calls, Input, floats, integers, network


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
def lstm_of_padded_rows():
    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        outputs, (h, _) = self.lstm(packed)
        return nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)[0], h

    # One row has the whole length.
    lengths = Input("lengths", ("batch",), lambda g, shape: np.r_[6, g.integers(1, 7, shape[0] - 1)])
    return Calls(forward, lstm=nn.LSTM(4, 8, batch_first=True, bidirectional=True)), \
        [floats("x", "batch", 6, 4), lengths]


@network
def lstm_steps():
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
