// SPDX-License-Identifier: Apache-2.0
bool is_compiled_by_nvcc();  // kernel.cu

int main() { return is_compiled_by_nvcc() == (EXPECTS_NVCC != 0) ? 0 : 1; }
