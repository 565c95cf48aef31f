// SPDX-License-Identifier: Apache-2.0
// DLPack: the structures in memory (version 1 of the specification, whose names these are), taken and given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "failures.hpp"

namespace sluice::python {

namespace dlpack {

enum device_type : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3 };

struct device {
    std::int32_t type;
    std::int32_t id;
};

struct data_type {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct tensor {
    void* data;
    dlpack::device device;
    std::int32_t ndim;
    data_type dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // in elements; null: row-major without gaps
    std::uint64_t byte_offset;
};

struct managed_tensor {
    dlpack::tensor tensor;
    void* manager_ctx;
    void (*deleter)(managed_tensor*);
};

struct managed_tensor_versioned {
    std::uint32_t major, minor;
    void* manager_ctx;
    void (*deleter)(managed_tensor_versioned*);
    std::uint64_t flags;
    dlpack::tensor tensor;
};

// 0 for a type that sluice_type does not have.
sluice_type type_from(data_type type) noexcept;
data_type type_of(sluice_type type) noexcept;

}  // namespace dlpack

// What an object with __dlpack__ lends. Its memory stays as long as this object: the capsule is not consumed.
class lent_tensor {
public:
    // Where it is, as the object says. Throws what __dlpack_device__ throws.
    static dlpack::device place_of(nb::handle from);

    lent_tensor() = default;
    // `stream`: a cudaStream_t that is to wait for the memory's contents; null for the host's memory. `label` is the
    // input, for messages. Throws TypeError or ValueError for what is no row-major tensor of a type that networks have.
    lent_tensor(nb::handle from, void* stream, const std::string& label);

    const sluice_tensor& tensor() const noexcept { return tensor_; }
    const nb::object& capsule() const noexcept { return capsule_; }

private:
    nb::object capsule_;
    sluice_tensor tensor_{};
};

// A capsule over memory at `place` that `owner` keeps. `owned` deletes `owner`.
nb::object give_tensor(const sluice_buffer& tensor, dlpack::device place, bool versioned, void* owner,
                       void (*owned)(void*));

}  // namespace sluice::python
