#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports small networks of Keras by tf2onnx, with their own outputs for random inputs.

    python3 tools/export_keras.py FOLDER [NAME...]

Each goes to FOLDER/keras-NAME. Needs tensorflow (tensorflow-cpu), tf2onnx and onnx.
"""

import os
import pathlib
import sys
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy as np
import tensorflow as tf
import tf2onnx
from keras import layers, ops

from exported_network import export_all, generator, store

OPSET = 18
BATCH, TIME = 5, 9  # of the run; the exported network takes any
NETWORKS = {}


def network(function):
    """Enters a function that gives a model."""
    NETWORKS[function.__name__] = function
    return function


def image(side=16, channels=3):
    return layers.Input((side, side, channels), name="image")


def series(features=5):
    return layers.Input((None, features), name="series")


def tokens(name="tokens"):
    return layers.Input((None,), dtype="int32", name=name)


def gelu(x):
    return keras.activations.gelu(x, approximate=True)  # tf2onnx does not know the operator of the exact one


def chain(start, *parts):
    x = start
    for each in parts:
        x = each(x)
    return keras.Model(start, x)


@network
def mlp():
    return chain(layers.Input((20,), name="x"), layers.Dense(32, "relu"), layers.Dense(16, "tanh"),
                 layers.Dropout(0.5), layers.Dense(3, "softmax"))


@network
def mlp_norms():
    return chain(layers.Input((12,), name="x"), layers.Dense(24), layers.BatchNormalization(),
                 layers.Activation(gelu), layers.Dense(24), layers.LayerNormalization(), layers.Activation("silu"),
                 layers.Dense(24), layers.UnitNormalization(), layers.Dense(1, "sigmoid"))


@network
def mlp_exact_gelu():
    return chain(layers.Input((12,), name="x"), layers.Dense(24, "gelu"), layers.Dense(3))


@network
def activations():
    x = layers.Input((10,), name="x")
    y = layers.Dense(12)(x)
    names = ["relu6", "elu", "selu", "softplus", "softsign", "hard_sigmoid", "hard_silu", "leaky_relu", "mish",
             "log_softmax", "exponential", "hard_tanh", "tanh_shrink", "log_sigmoid", "soft_shrink",
             "hard_shrink", "squareplus", "sparse_plus"]
    return keras.Model(x, layers.Concatenate()([layers.Activation(each)(y) for each in names] +
                                               [layers.PReLU()(y), layers.LeakyReLU(0.1)(y), layers.ReLU(4.0)(y)]))


@network
def wide_and_deep():
    a, b = layers.Input((6,), name="wide"), layers.Input((8,), name="deep")
    deep = layers.Dense(8, "relu")(layers.Dense(16, "relu")(b))
    joined = layers.Concatenate()([a, deep])
    return keras.Model([a, b], [layers.Dense(1)(joined), layers.Dense(3, "softmax")(deep)])


@network
def merges():
    a, b = layers.Input((7,), name="a"), layers.Input((7,), name="b")
    c, d = layers.Dense(7)(a), layers.Dense(7)(b)
    parts = [layers.Add()([c, d]), layers.Subtract()([c, d]), layers.Multiply()([c, d]), layers.Average()([c, d]),
             layers.Maximum()([c, d]), layers.Minimum()([c, d])]
    return keras.Model([a, b], [layers.Concatenate()(parts), layers.Dot(1, normalize=True)([c, d])])


@network
def lenet():
    return chain(image(28, 1), layers.Conv2D(6, 5, padding="same", activation="tanh"), layers.AveragePooling2D(2),
                 layers.Conv2D(16, 5, activation="tanh"), layers.AveragePooling2D(2), layers.Flatten(),
                 layers.Dense(84, "tanh"), layers.Dense(10))


@network
def convolutions_with_norm():
    return chain(image(), layers.Rescaling(1 / 3, 0.1), layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False),
                 layers.BatchNormalization(), layers.ReLU(), layers.Conv2D(12, 3, dilation_rate=2, padding="same"),
                 layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D(3, 2, "same"),
                 layers.GlobalAveragePooling2D(), layers.Dense(10, "softmax"))


@network
def separable():
    return chain(image(), layers.SeparableConv2D(12, 3, padding="same", activation="relu"),
                 layers.DepthwiseConv2D(3, strides=2, padding="same"), layers.BatchNormalization(), layers.ReLU(6.0),
                 layers.Conv2D(8, 1), layers.GlobalMaxPooling2D(), layers.Dense(4))


@network
def residual():
    x = image()
    y = layers.Conv2D(8, 3, padding="same")(x)
    for _ in range(2):
        z = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.ReLU()(layers.BatchNormalization()(y)))
        y = layers.Add()([y, layers.Conv2D(8, 3, padding="same")(z)])
    return keras.Model(x, layers.Dense(5)(layers.GlobalAveragePooling2D()(y)))


@network
def squeeze_excite():
    x = image()
    y = layers.Conv2D(16, 3, activation="swish")(x)
    gate = layers.GlobalAveragePooling2D(keepdims=True)(y)
    gate = layers.Conv2D(16, 1, activation="sigmoid")(layers.Conv2D(4, 1, activation="swish")(gate))
    return keras.Model(x, layers.Dense(5)(layers.Flatten()(layers.Multiply()([y, gate]))))


@network
def group_norm():
    return chain(image(), layers.Conv2D(12, 3), layers.GroupNormalization(4), layers.ReLU(), layers.Conv2D(8, 3),
                 layers.GroupNormalization(-1), layers.Conv2D(4, 1), layers.GlobalAveragePooling2D())


@network
def unet():
    x = image()
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(16, 3, padding="same", activation="relu")(layers.MaxPooling2D()(a))
    c = layers.Conv2DTranspose(8, 2, strides=2)(b)
    y = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.Concatenate()([a, c]))
    return keras.Model(x, layers.Conv2D(2, 1, activation="softmax")(y))


@network
def autoencoder():
    return chain(image(16, 1), layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
                 layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
                 layers.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu"),
                 layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu"),
                 layers.Conv2D(1, 3, padding="same", activation="sigmoid"))


@network
def upsampling():
    x = image(8)
    y = layers.Conv2D(4, 3, padding="same")(x)
    return keras.Model(x, [layers.UpSampling2D(2)(y), layers.UpSampling2D(3, interpolation="bilinear")(y),
                           layers.Resizing(13, 10)(y), layers.Resizing(5, 20, interpolation="nearest")(y)])


@network
def padding_and_cropping():
    return chain(image(), layers.ZeroPadding2D((1, 2)), layers.Conv2D(4, 3), layers.Cropping2D(((1, 2), (0, 3))),
                 layers.Permute((3, 1, 2)), layers.Reshape((4, -1)), layers.Dense(3))


@network
def depth_to_space():
    x = image()
    y = layers.Conv2D(12, 3, padding="same")(x)
    return keras.Model(x, layers.Lambda(lambda z: tf.nn.depth_to_space(z, 2), output_shape=(32, 32, 3))(y))


@network
def conv3d():
    return chain(layers.Input((6, 8, 8, 2), name="volume"), layers.Conv3D(6, 3, activation="relu"),
                 layers.MaxPooling3D(2), layers.Flatten(), layers.Dense(3))


@network
def conv1d_causal():
    return chain(series(), layers.Conv1D(8, 3, padding="causal", activation="relu"),
                 layers.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu"),
                 layers.GlobalMaxPooling1D(), layers.Dense(2))


@network
def separable_1d():
    return chain(layers.Input((24, 4), name="series"), layers.SeparableConv1D(8, 5, padding="same"),
                 layers.AveragePooling1D(2), layers.Conv1DTranspose(6, 4, strides=2), layers.UpSampling1D(2),
                 layers.GlobalAveragePooling1D(), layers.Dense(2))


@network
def text_classifier():
    return chain(tokens(), layers.Embedding(80, 12), layers.Conv1D(16, 3, padding="same", activation="relu"),
                 layers.GlobalAveragePooling1D(), layers.Dense(4, "softmax"))


@network
def lstm():
    return chain(series(), layers.LSTM(12), layers.Dense(3))


@network
def lstm_deep():
    return chain(series(), layers.LSTM(10, return_sequences=True), layers.LSTM(8, return_sequences=True),
                 layers.Dense(4, "softmax"))


@network
def lstm_two_ways():
    return chain(series(), layers.Bidirectional(layers.LSTM(9, return_sequences=True)), layers.Dense(2))


@network
def gru():
    return chain(series(), layers.GRU(12, return_sequences=True), layers.GRU(7, reset_after=False), layers.Dense(3))


@network
def gru_two_ways():
    return chain(tokens(), layers.Embedding(40, 8), layers.Bidirectional(layers.GRU(6)), layers.Dense(3))


@network
def simple_rnn():
    return chain(series(), layers.SimpleRNN(10, return_sequences=True), layers.SimpleRNN(6, activation="relu"))


@network
def masked_lstm():
    return chain(tokens(), layers.Embedding(30, 8, mask_zero=True), layers.LSTM(10), layers.Dense(3))


@network
def conv_lstm():
    return chain(layers.Input((4, 8, 8, 2), name="frames"), layers.ConvLSTM2D(5, 3, padding="same"),
                 layers.Conv2D(1, 1))


@network
def encoder_decoder():
    source, target = tokens("source"), tokens("target")
    _, h, c = layers.LSTM(12, return_state=True)(layers.Embedding(30, 8)(source))
    y = layers.LSTM(12, return_sequences=True)(layers.Embedding(30, 8)(target), initial_state=[h, c])
    return keras.Model([source, target], layers.Dense(30, "softmax")(y))


@network
def multi_head_attention():
    x, memory = series(16), layers.Input((None, 12), name="memory")
    y, weights = layers.MultiHeadAttention(4, 8)(x, memory, return_attention_scores=True)
    return keras.Model([x, memory], [y, weights])


@network
def attention():
    query, value = series(8), layers.Input((None, 8), name="memory")
    return keras.Model([query, value], [layers.Attention(use_scale=True)([query, value]),
                                        layers.AdditiveAttention()([query, value])])


@network
def transformer():
    x = tokens()
    y = layers.Embedding(50, 16)(x)
    for _ in range(2):
        z = layers.LayerNormalization(epsilon=1e-6)(y)
        y = layers.Add()([y, layers.MultiHeadAttention(2, 8)(z, z, use_causal_mask=True)])
        z = layers.Dense(32, gelu)(layers.LayerNormalization(epsilon=1e-6)(y))
        y = layers.Add()([y, layers.Dense(16)(z)])
    return keras.Model(x, layers.Dense(50)(y))


@network
def heads():
    x = layers.Input((20,), name="x")
    y = layers.Dense(12)(x)
    best = layers.Lambda(lambda z: tf.math.top_k(z, 3)[0], output_shape=(3,))(y)
    index = layers.Lambda(lambda z: tf.argmax(z, -1), output_shape=())(y)
    return keras.Model(x, [best, index, layers.Lambda(lambda z: tf.cumsum(z, 1), output_shape=(12,))(y)])


@network
def einsum_dense():
    return chain(series(12), layers.EinsumDense("abc,cde->abde", (None, 3, 5), bias_axes="de"),
                 layers.EinsumDense("abde,def->abf", (None, 7), activation="relu"), layers.RMSNormalization(),
                 layers.Lambda(lambda z: ops.logsumexp(z, 1), output_shape=(7,)))


@network
def preprocessing():
    x, kind = layers.Input((4,), name="x"), layers.Input((1,), dtype="int32", name="kind")
    numbers = layers.Rescaling([0.5, 1.0, 2.0, 0.1], [0.0, 0.3, -0.2, 1.0])(x)
    kinds = layers.CategoryEncoding(30, output_mode="one_hot")(kind)
    return keras.Model([x, kind], layers.Dense(3)(layers.Concatenate()([numbers, kinds])))


def arrays_for(model, random):
    made = {}
    for each in model.inputs:
        shape = [BATCH] + [TIME + i if size is None else size for i, size in enumerate(each.shape[1:])]
        whole = each.dtype.startswith("int")
        made[each.name] = random.integers(0, 30, shape).astype("int32") if whole else \
            random.standard_normal(shape, "float32")
    return made


def as_if_trained(model, random):
    """Numbers that are all 0 or all 1 in a new model, such as biases, or small, as those of embeddings, get values that
    matter."""
    for each in model.weights:
        values = np.asarray(each)
        if values.dtype.kind == "f" and (values == 0).all() or each.name == "embeddings":
            each.assign(random.normal(0, 0.3 if values.ndim == 1 else 1, values.shape))
        elif values.dtype.kind == "f" and (values == 1).all():
            each.assign(random.uniform(0.5, 1.5, values.shape))


def export(folder, exporter, name):
    keras.utils.clear_session()
    keras.utils.set_random_seed(zlib.crc32(name.encode()) % 2**31)
    model, random = NETWORKS[name](), generator(name)
    as_if_trained(model, random)
    arrays = arrays_for(model, random)
    expected = model([tf.constant(each) for each in arrays.values()], training=False)
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    signature = [tf.TensorSpec(each.shape, each.dtype, name=each.name) for each in model.inputs]
    function = tf.function(lambda *inputs: model(list(inputs), training=False), input_signature=signature)
    exported, _ = tf2onnx.convert.from_function(function, signature, opset=OPSET)
    store(folder, "keras", exporter, name, exported, arrays, [np.asarray(each) for each in expected])


def main():
    folder = pathlib.Path(sys.argv[1])
    exporter = f"Keras {keras.__version__}, tf2onnx {tf2onnx.__version__}"
    export_all(folder, "keras", exporter, NETWORKS, lambda name: export(folder, exporter, name))


main()
