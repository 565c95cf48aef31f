# SPDX-License-Identifier: Apache-2.0
"""Networks on a GPU, with arrays of PyTorch: no copy, and streams that are ordered both ways.

The tests prove order by a kernel that spins for 10^9 cycles on PyTorch's stream: without order the result would be
read, or the memory used again, while it spins.
"""

import asyncio
import os

import numpy
import pytest
from conftest import NETWORKS, ROOT, CudaArray

import sluice
from sluice import op

if os.environ.get("SLUICE_REQUIRE_GPU"):  # as scripts/gpu_session sets it: then nothing is skipped
    import torch

    assert not sluice.default_runtime().why_no_gpu and torch.cuda.is_available(), sluice.default_runtime().why_no_gpu
else:
    torch = pytest.importorskip("torch", reason="the tests of GPUs need PyTorch")
    _why = sluice.default_runtime().why_no_gpu or ("" if torch.cuda.is_available() else "PyTorch finds no GPU")
    pytestmark = pytest.mark.skipif(bool(_why), reason=f"no GPU: {_why}")

LONG = 1_000_000_000  # cycles, about 0.5 s


@pytest.fixture(scope="module")
def x(pixels):
    return torch.from_numpy(pixels).cuda()


@pytest.fixture(scope="module")
def net(x):
    made = sluice.load(ROOT / "models/digits.onnx", "cuda:0")
    for _ in range(3):  # opens libraries, and compiles the network for these shapes
        torch.from_dlpack(made.forward(x))
    made(x)
    torch.cuda.synchronize()
    return made


@pytest.fixture(scope="module")
def expected(logits):
    return logits


class Shown:
    """A tensor of PyTorch as an object with version 3 of the interface only."""

    def __init__(self, tensor, stream):
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__ | {"version": 3, "stream": stream}


def near(a, b):
    return a.shape == b.shape and numpy.abs(numpy.asarray(a) - b).max() < 1e-2


def test_the_page(net, pixels, expected):
    made = net.forward(torch.from_numpy(pixels).cuda())  # does not wait, and copies nothing
    logits = torch.from_dlpack(made)  # PyTorch's stream waits, on the GPU

    assert near(logits.cpu(), expected)


def test_host_arrays_and_device_arrays_give_the_same(net, x, pixels, logits):
    assert net.device == "cuda:0"
    for given in [pixels, x, torch.from_numpy(pixels), Shown(x, None), Shown(x, 1)]:
        assert near(net(given), logits)
        assert near(torch.from_dlpack(net.forward(given)).cpu(), logits)
        assert near(net.submit(given).result(), logits)

    async def ask():
        return await net.submit(x)

    assert near(asyncio.run(ask()), logits)


@pytest.mark.parametrize("show", [lambda t, s: t, lambda t, s: Shown(t, s.cuda_stream)], ids=["dlpack", "cuda array"])
@pytest.mark.parametrize("run", ["__call__", "submit", "forward"])
def test_work_on_the_producers_stream_comes_first(net, x, logits, show, run):
    stream = torch.cuda.Stream()
    late = torch.zeros_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        late.copy_(x, non_blocking=True)
        made = getattr(net, run)(show(late, stream))
    if run == "submit":
        made = made.result()
    if run == "forward":
        made = torch.from_dlpack(made).cpu()
    assert near(made, logits)


def test_version_2_comes_after_the_legacy_default_stream(net, x, logits):
    late = torch.zeros_like(x)
    torch.cuda.synchronize()
    torch.cuda._sleep(LONG)
    late.copy_(x)
    shown = Shown(late, None)
    shown.__cuda_array_interface__["version"] = 2
    del shown.__cuda_array_interface__["stream"]
    assert near(net(shown), logits)


def test_outputs_are_given_without_a_copy(net, x, logits):
    made = net.forward(x)
    assert (made.shape, made.dtype, made.device) == ((450, 10), "float32", "cuda:0")
    assert made.__dlpack_device__() == (2, 0)
    shown = made.__cuda_array_interface__
    assert {name: shown[name] for name in ("shape", "typestr", "strides", "version", "stream")} == {
        "shape": (450, 10), "typestr": "<f4", "strides": None, "version": 3, "stream": 1}
    taken = torch.from_dlpack(made)
    again = torch.as_tensor(made, device="cuda")
    assert taken.data_ptr() == shown["data"][0] and shown["data"][1] is False
    assert near(taken.cpu(), logits) and near(again.cpu(), logits)
    del made
    taken += 1  # it may be written
    torch.cuda.synchronize()
    assert near(taken.cpu() - 1, logits)
    with pytest.raises(BufferError, match="the memory is on cuda:0"):
        memoryview(net.forward(x))


def test_the_consumers_stream_waits_for_the_outputs(net, x, logits):
    source, consumer = torch.cuda.Stream(), torch.cuda.Stream()
    late = torch.zeros_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(source):
        torch.cuda._sleep(LONG)
        late.copy_(x, non_blocking=True)
        made = net.forward(late)  # does not wait
        assert not source.query()
    with torch.cuda.stream(consumer):
        taken = torch.from_dlpack(made).clone()
        assert not source.query()
    consumer.synchronize()
    assert near(taken.cpu(), logits)


def test_inputs_may_be_dropped_while_the_run_is_in_flight(net, x, logits):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        late = x.clone()
        made = net.forward(late)
        del late
        others = [torch.full_like(x, 7) for _ in range(8)]  # PyTorch gives freed memory of a stream again at once
    assert near(torch.from_dlpack(made).cpu(), logits) and len(others) == 8


def test_cupy(net, pixels, logits):
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        given = cupy.asarray(pixels)
        shown = given.__cuda_array_interface__
        assert shown["version"] == 3 and shown["stream"] == stream.ptr
        made = cupy.asarray(net.forward(Shown(given, stream.ptr)))  # by the interface, version 3
        assert near(made.get(), logits)
        assert near(cupy.from_dlpack(net.forward(given)).get(), logits)
        assert near(net(given), logits)
    stream.synchronize()


def test_outputs_may_be_dropped_while_the_consumer_reads(net, x, logits):
    consumer = torch.cuda.Stream()
    zeros = torch.zeros_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(consumer):
        taken = torch.from_dlpack(net.forward(x))
        torch.cuda._sleep(LONG)
        copied = taken.clone()
        del taken
    for _ in range(8):
        net.forward(zeros)  # would write over the memory
    consumer.synchronize()
    assert near(copied.cpu(), logits)


def test_outputs_are_inputs_of_the_next_network(net, x, logits):
    square = sluice.loads(softmax_model(), "cuda:0")
    expected = numpy.exp(logits) / numpy.exp(logits).sum(1, keepdims=True)
    for _ in range(5):
        assert near(square(net.forward(x)), expected)
        assert near(torch.from_dlpack(square.forward(net.forward(x))).cpu(), expected)


def softmax_model():
    onnx = pytest.importorskip("onnx")
    value = [onnx.helper.make_tensor_value_info(name, 1, ["n", 10]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Softmax", ["x"], ["y"])], "softmax", value[:1], value[1:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString()


def test_outputs_never_share_the_memory_of_inputs():
    types = sluice.load(NETWORKS / "types.onnx", "cuda:0")
    inputs = {each.name: torch.ones(64, dtype=getattr(torch, each.dtype)).cuda() for each in types.inputs}
    made = {name: torch.from_dlpack(each) for name, each in types.forward(**inputs).items()}
    for each in made.values():
        each.zero_()
    torch.cuda.synchronize()
    assert all(each.cpu().tolist() == [1] * 64 for each in inputs.values())


def test_what_a_consumer_cannot_have(net, x):
    made = net.forward(x)
    for options, text in [({"stream": 0}, "may mean two"), ({"stream": 2}, "each thread"),
                          ({"dl_device": (1, 0)}, "another device"), ({"copy": True}, "a copy")]:
        with pytest.raises(BufferError, match=text):
            made.__dlpack__(**options)
    made.__dlpack__(stream=-1)  # the consumer orders itself


def test_what_is_refused(net, x):
    with pytest.raises(ValueError, match="has a mask"):
        net(CudaArray(mask=3))
    with pytest.raises(ValueError, match="contiguous"):
        net(Shown(x.t().contiguous().t(), 1))
    with pytest.raises(sluice.InvalidArgumentError, match="256"):
        net(Shown(torch.zeros(65, device="cuda")[1:].reshape(1, 64), 1))
    with pytest.raises(sluice.Error):
        net(CudaArray())  # no memory of this GPU is there


def test_profile(net, pixels, x):
    made = net.profile(pixels, runs=3)
    operators = " ".join(row.operators for row in made.rows)
    assert "Gemm" in operators and "(upload)" in operators and made.microseconds > 0
    with pytest.raises(ValueError, match="host memory"):
        net.profile(x)


def test_pipelines(pixels):
    x = torch.from_numpy(pixels).cuda()
    w = numpy.ones((64, 8), "float32")
    hidden = op.sync(op.upload(x).and_then(op.gemm, w).and_then(op.relu))
    assert hidden.device == "cuda:0" and near(torch.from_dlpack(hidden).cpu(), numpy.maximum(pixels @ w, 0))
    sums = op.sync(op.download(op.sum(op.upload(hidden))), device="cuda:0")
    assert numpy.allclose(sums, numpy.maximum(pixels @ w, 0).sum(-1), rtol=1e-3)
    net = op.compile(lambda x: op.softmax(x @ w * 0.01), ("rows", 64), device="cuda:0")
    for rows in [1, 450, 450, 450]:
        made = torch.from_dlpack(net.forward(x[:rows].contiguous())).cpu().numpy()
        assert numpy.allclose(made.sum(-1), 1, atol=1e-3)
