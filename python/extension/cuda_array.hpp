// SPDX-License-Identifier: Apache-2.0
// The CUDA array interface, version 3: arrays in the memory of a GPU as a dict of Python, and the numbers by which
// Python names CUDA's streams.
#pragma once

#include <vector>

#include "failures.hpp"

namespace sluice::python {

// cudaStreamLegacy
inline void* legacy_stream() noexcept { return reinterpret_cast<void*>(std::uintptr_t{1}); }

// The stream of a library that takes memory.
struct consumer_stream {
    void* handle = nullptr;
    bool waits = false;  // false: it does not want to be ordered

    // The argument of __dlpack__: None is the legacy default stream, -1 none. Throws BufferError for 0, which may mean
    // two streams, and for cudaStreamPerThread.
    static consumer_stream of_dlpack(nb::handle stream);
};

// "<f4"; empty for bfloat16, which the interface does not have.
std::string cuda_array_type(sluice_type type);

// What an object with __cuda_array_interface__ lends. Its memory stays as long as this object.
class cuda_array {
public:
    cuda_array() = default;
    // `shown` is what the object's __cuda_array_interface__ gives; `label` is the input, for messages. Throws TypeError
    // or ValueError for what is no row-major array, with a mask, or of a type that networks do not have.
    cuda_array(nb::object from, nb::handle shown, const std::string& label);

    sluice_tensor tensor() const noexcept { return {data_, shape_.data(), shape_.size(), type_, SLUICE_DEVICE}; }
    // A cudaStream_t that the memory's contents come after; `waits` is false when they are there.
    const consumer_stream& producer() const noexcept { return producer_; }
    const nb::object& owner() const noexcept { return owner_; }

private:
    nb::object owner_;
    const void* data_ = nullptr;
    std::vector<std::int64_t> shape_;
    sluice_type type_ = 0;
    consumer_stream producer_;
};

}  // namespace sluice::python
