#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the weights of the network in examples/control_loop.hpp, which balances a pendulum.

    train_pendulum.py > examples/control_loop_weights.hpp

The network has one hidden layer with x / (1 + |x|) after it. Its first layer is random; the second one is the best fit,
by least squares, to a linear controller whose output is limited softly. Needs NumPy.
"""

import sys

import numpy

UNITS = 16
# Of angle (rad), velocity (rad/s) and the integral of the angle (rad s): what the network imitates.
GAINS = numpy.array([40.0, 10.0, 10.0])
RANGES = numpy.array([0.6, 3.0, 0.3])
LIMIT = 20.0  # N m
SAMPLES = 20000


def array(name, numbers):
    lines = [f"inline constexpr float {name}[] = {{"]
    for first in range(0, len(numbers), 8):
        lines.append("    " + " ".join(f"{number:.7g}f," for number in numbers[first:first + 8]))
    return "\n".join(lines) + "\n};\n"


def main():
    random = numpy.random.default_rng(20)
    # Half of the units, and their mirror images: so the network is odd, and gives no torque where nothing is to be done.
    half = random.normal(size=(UNITS // 2, 3)) / RANGES
    offsets = random.uniform(-1, 1, size=UNITS // 2)
    first = numpy.concatenate([half, -half])
    bias = numpy.concatenate([offsets, offsets])

    states = random.uniform(-1, 1, size=(SAMPLES, 3)) * RANGES
    wanted = -LIMIT * numpy.tanh(states @ GAINS / LIMIT)
    sums = states @ first.T + bias
    hidden = sums / (1 + numpy.abs(sums))
    odd = hidden[:, :UNITS // 2] - hidden[:, UNITS // 2:]
    fitted, *_ = numpy.linalg.lstsq(odd, wanted, rcond=None)
    error = numpy.sqrt(numpy.mean((odd @ fitted - wanted) ** 2))
    print(f"differs by {error:.2f} N m of {LIMIT:g} (root mean square)", file=sys.stderr)

    print("// SPDX-License-Identifier: Apache-2.0\n"
          "// The weights of the network in control_loop.hpp. Made by tools/train_pendulum.py.\n"
          "#pragma once\n\n"
          "namespace control_loop::weights {\n")
    print(f"inline constexpr unsigned units = {UNITS};\n"
          "// [units][3]: of angle, velocity and the integral of the angle.")
    print(array("first", first.reshape(-1)))
    print(array("bias", bias))
    print(array("second", numpy.concatenate([fitted, -fitted])))
    print("}  // namespace control_loop::weights")


if __name__ == "__main__":
    main()
