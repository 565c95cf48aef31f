#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The networks of exports.toml, each written by the framework's own exporter, with weights by seed.

    exports.py FOLDER [NAME...]

What has no weights to train is trained on data that the framework makes by seed. Needs those frameworks whose networks are
to be written; a network whose framework is not installed, or whose export fails, is named and left out. Files that
are there are kept.
"""

import importlib
import pathlib
import sys
import tomllib
import warnings

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
SEED = 7


# --- tables: scikit-learn and what is alike -------------------------------------------------------------------------

def table(columns, classes):
    """Rows and targets: numbers, and a class or a number that depends on them."""
    random = np.random.default_rng(SEED)
    rows = random.standard_normal((2000, columns)).astype(np.float32)
    value = rows @ random.standard_normal(columns) + np.sin(3 * rows[:, 0]) * rows[:, 1]
    if classes == 0:
        return rows, value.astype(np.float32)
    return rows, np.digitize(value, np.quantile(value, np.arange(1, classes) / classes))


def made(path, how):
    """The object that the entry names, called with its arguments."""
    module, _, name = how["of"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**how.get("with", {}))


def sklearn(entry, to):
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.pipeline import make_pipeline
    steps = [made(to, each) for each in entry["steps"]]
    if "texts" in entry:
        random = np.random.default_rng(SEED)
        rows = random.choice(entry["texts"], (500, entry["columns"])).astype(object)
        target = (rows[:, 0] == entry["texts"][0]).astype(np.int64)
        types = [("rows", StringTensorType([None, entry["columns"]]))]
    else:
        rows, target = table(entry["columns"], entry["classes"])
        types = [("rows", FloatTensorType([None, entry["columns"]]))]
    model = make_pipeline(*steps).fit(rows, target)
    options = {id(steps[-1]): {"zipmap": False}} if hasattr(steps[-1], "predict_proba") else None
    to.write_bytes(to_onnx(model, initial_types=types, options=options, target_opset={"": 18, "ai.onnx.ml": 3})
                   .SerializeToString())


def boosted(entry, to):
    """LightGBM and XGBoost, by onnxmltools."""
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType
    rows, target = table(entry["columns"], entry["classes"])
    model = made(to, entry["steps"][0]).fit(rows, target)
    convert = onnxmltools.convert_lightgbm if entry["steps"][0]["of"].startswith("lightgbm") else onnxmltools.convert_xgboost
    more = {"zipmap": False} if convert is onnxmltools.convert_lightgbm else {}
    written = convert(model, initial_types=[("rows", FloatTensorType([None, entry["columns"]]))], target_opset=15, **more)
    for each in written.graph.output:  # some say that there is one row
        each.type.tensor_type.shape.dim[0].dim_param = "rows"
    to.write_bytes(written.SerializeToString())


def catboost(entry, to):
    rows, target = table(entry["columns"], entry["classes"])
    model = made(to, entry["steps"][0])
    model.fit(rows, target, verbose=False)
    model.save_model(str(to), format="onnx")


# --- PyTorch ---------------------------------------------------------------------------------------------------------

def export_torch(module, inputs, names, to, dynamic=True):
    import onnx
    import torch
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs) if dynamic else None
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module, inputs, input_names=names, dynamo=True, verbose=False, dynamic_shapes=shapes)
    onnx.save(program.model_proto, to)


def settle(module):
    """Running statistics as training leaves them: else numbers grow from layer to layer."""
    import torch
    generator = torch.Generator().manual_seed(SEED)
    for each in module.modules():
        if getattr(each, "running_var", None) is not None:
            each.running_mean.normal_(0, 0.1, generator=generator)
            each.running_var.uniform_(0.5, 1.5, generator=generator)
    return module.eval()


class FirstOnly:
    """The first tensor of what a module gives, or its logits."""

    def __new__(cls, module):
        import torch

        class First(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.module = module

            def forward(self, value):
                given = self.module(value)
                while not isinstance(given, torch.Tensor):
                    given = next(iter(given.values())) if hasattr(given, "values") else given[0]
                return given

        return First()


def torchvision(entry, to):
    import torch
    from torchvision import models
    torch.manual_seed(SEED)
    more = {"weights_backbone": None} if entry["of"].startswith(("deeplab", "lraspp", "ssd", "fcn")) else {}
    module = settle(models.get_model(entry["of"], weights=None, **more, **entry.get("with", {})))
    side = entry["side"]
    export_torch(FirstOnly(module), (torch.rand(2, 3, side, side),), ["image"], to)


def timm(entry, to):
    import timm as library
    import torch
    torch.manual_seed(SEED)
    module = settle(library.create_model(entry["of"], pretrained=False, exportable=True))
    side = entry["side"]
    export_torch(module, (torch.rand(2, 3, side, side),), ["image"], to)


def transformers(entry, to):
    import torch
    import transformers as library
    torch.manual_seed(SEED)
    config = getattr(library, entry["of"] + "Config")(**entry.get("with", {}))
    module = getattr(library, entry["of"] + entry.get("head", "Model"))(config).eval()
    if entry.get("part"):
        module = getattr(module, entry["part"])
    length = entry["example"]
    inputs = torch.randint(0, 100, (2, *length)) if entry["name_of_input"] == "input_ids" else torch.randn(2, *length)

    class By(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, value):
            return self.module(**{entry["name_of_input"]: value, **entry.get("call", {})})

    export_torch(FirstOnly(By()), (inputs,), [entry["name_of_input"]], to)


# --- Keras -----------------------------------------------------------------------------------------------------------

def keras(entry, to):
    import keras as library
    import tensorflow as tf
    import tf2onnx
    library.utils.set_random_seed(SEED)
    if entry["of"] in LAYERS:
        model = LAYERS[entry["of"]](library)
    else:
        model = getattr(library.applications, entry["of"])(weights=None, input_shape=(entry["side"], entry["side"], 3))
    signature = [tf.TensorSpec([None, *each.shape[1:]], each.dtype, name=f"x{i}") for i, each in enumerate(model.inputs)]
    run = tf.function(lambda *given: model(list(given) if len(given) > 1 else given[0], training=False),
                      input_signature=signature)
    made, _ = tf2onnx.convert.from_function(run, input_signature=signature, opset=18)
    if len(made.graph.input) != len(signature):
        raise ValueError("constants became inputs")
    to.write_bytes(made.SerializeToString())


def reviews(library):
    """Words to a class: both directions of an LSTM."""
    layers = library.layers
    start = layers.Input((80,), dtype="int32")
    x = layers.Embedding(5000, 64)(start)
    x = layers.Bidirectional(layers.LSTM(64))(x)
    return library.Model(start, layers.Dense(1, "sigmoid")(layers.Dense(32, "relu")(x)))


def sensors(library):
    """A series to a class: convolutions, then a GRU."""
    layers = library.layers
    start = layers.Input((128, 9))
    x = layers.Conv1D(64, 5, activation="relu", padding="same")(start)
    x = layers.MaxPooling1D(2)(layers.Conv1D(64, 5, activation="relu", padding="same")(x))
    x = layers.GRU(64)(x)
    return library.Model(start, layers.Dense(6, "softmax")(x))


def attention(library):
    """A layer of a transformer over a series."""
    layers = library.layers
    start = layers.Input((64, 32))
    x = layers.LayerNormalization()(start + layers.MultiHeadAttention(4, 16)(start, start))
    x = layers.LayerNormalization()(x + layers.Dense(32)(layers.Dense(128, "relu")(x)))
    return library.Model(start, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)))


LAYERS = {"reviews": reviews, "sensors": sensors, "attention": attention}


# --- networks of this list in 8 bits --------------------------------------------------------------------------------

def quantized(entry, to):
    """Another network of this list in 8 bits, as ONNX Runtime's static quantization writes it."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    source, prepared = to.with_name(f"{entry['of']}.onnx"), to.with_suffix(".prepared")
    value = onnx.load(source, load_external_data=False).graph.input[0]
    shape = [each.dim_value or 1 for each in value.type.tensor_type.shape.dim]

    class Images(CalibrationDataReader):
        def __init__(self):
            random = np.random.default_rng(SEED)
            self.left = [random.standard_normal(shape).astype(np.float32) for _ in range(3)]

        def get_next(self):
            return {value.name: self.left.pop()} if self.left else None

    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    try:
        quantize_static(str(prepared), str(to), Images(), quant_format=QuantFormat[entry["form"]], per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    finally:
        prepared.unlink()


BY = {each.__name__: each
      for each in (sklearn, boosted, catboost, torchvision, timm, transformers, keras, quantized)}


def main():
    folder, *names = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for entry in tomllib.loads((HERE / "exports.toml").read_text())["network"]:
        to = folder / f"{entry['name']}.onnx"
        if to.exists() or (names and entry["name"] not in names):
            continue
        try:
            BY[entry["by"]](entry, to)
            print(f"{entry['name']}: {to.stat().st_size} bytes", flush=True)
        except Exception as error:  # each framework has errors of its own
            to.unlink(missing_ok=True)
            print(f"{entry['name']}: left out: {type(error).__name__}: {str(error)[-300:]}", flush=True)


if __name__ == "__main__":
    main()
