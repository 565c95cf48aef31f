"""A multi-layer perceptron by PyTorch on a CPU, the fastest of three ways: eager, frozen TorchScript that is optimized for
inference, and torch.compile with frozen weights.

Needs torch and, for torch.compile, a C++ compiler.
"""

import time
import warnings

import numpy as np
import torch
import torch._inductor.config


def set_threads(count):
    torch.set_num_threads(count)


def trial(call, seconds=0.3):
    """The median of some calls, in seconds."""
    for _ in range(3):
        call()
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def ways_of(layers, inputs):
    parts = []
    for i, (weights, biases) in enumerate(layers):
        linear = torch.nn.Linear(*weights.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weights.T.copy()))
            linear.bias.copy_(torch.from_numpy(biases.copy()))
        parts.append(linear)
        if i + 1 < len(layers):
            parts.append(torch.nn.ReLU())
    eager = torch.nn.Sequential(*parts).eval()
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # TorchScript is frozen, and still the fastest at times
        frozen = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(eager, inputs)))
    torch._inductor.config.freezing = True
    torch._dynamo.reset()
    compiled = torch.compile(eager, dynamic=False)
    return {"eager": eager, "frozen": frozen, "compiled": compiled}


def fastest(layers, numbers):
    """A call that gives a NumPy array, and its way's name. `layers` are pairs of weights [inputs, outputs] and biases."""
    inputs = torch.from_numpy(numbers)

    def call_of(way):
        def call():
            with torch.inference_mode():
                return way(torch.from_numpy(numbers)).numpy()

        return call

    ways = {name: call_of(way) for name, way in ways_of(layers, inputs).items()}
    expected = ways["eager"]()
    for name, call in ways.items():
        if not np.allclose(call(), expected, rtol=1e-3, atol=1e-4):
            raise SystemExit(f"torch_perceptron: {name} computes something else")
    best = min(ways, key=lambda name: trial(ways[name]))
    return ways[best], best
