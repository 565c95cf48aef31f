// SPDX-License-Identifier: Apache-2.0
// The functions of the fatbins of the tests, in plain CUDA: tests/cuda/CMakeLists.txt compiles them.

// y[i] = a * x[i] + y[i]
extern "C" __global__ void axpy(unsigned size, float a, const float* x, float* y) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) y[i] = a * x[i] + y[i];
}

// x[i] = value
extern "C" __global__ void set_all(unsigned size, unsigned value, unsigned* x) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) x[i] = value;
}
