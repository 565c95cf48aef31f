// SPDX-License-Identifier: Apache-2.0
// The layout in memory of DLPack's structures, version 1: what other libraries read and write. The names of the fields
// and numbers are those of the specification.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::detail::dlpack {

enum device_type : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
enum flag : std::uint64_t { read_only = 1, is_copied = 2, subbyte_padded = 4 };

struct dl_device {
    std::int32_t device_type;
    std::int32_t device_id;
};

struct dl_data_type {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct dl_tensor {
    void* data;
    dl_device device;
    std::int32_t ndim;
    dl_data_type dtype;
    std::int64_t* shape;    // ndim numbers of elements
    std::int64_t* strides;  // ndim numbers, in elements; null: row-major without gaps
    std::uint64_t byte_offset;
};
static_assert(sizeof(dl_tensor) == 48 && offsetof(dl_tensor, device) == 8 && offsetof(dl_tensor, ndim) == 16 &&
              offsetof(dl_tensor, dtype) == 20 && offsetof(dl_tensor, shape) == 24 &&
              offsetof(dl_tensor, strides) == 32 && offsetof(dl_tensor, byte_offset) == 40);

// DLManagedTensor.
struct unversioned {
    dl_tensor tensor;
    void* manager_ctx;
    void (*deleter)(unversioned*);
};
static_assert(sizeof(unversioned) == 64 && offsetof(unversioned, manager_ctx) == 48 &&
              offsetof(unversioned, deleter) == 56);

struct dl_version {
    std::uint32_t major;
    std::uint32_t minor;
};

// DLManagedTensorVersioned. In every major version it begins with the version, manager_ctx and deleter.
struct versioned {
    dl_version version;
    void* manager_ctx;
    void (*deleter)(versioned*);
    std::uint64_t flags;
    dl_tensor tensor;
};
static_assert(sizeof(versioned) == 80 && offsetof(versioned, manager_ctx) == 8 && offsetof(versioned, deleter) == 16 &&
              offsetof(versioned, flags) == 24 && offsetof(versioned, tensor) == 32);

}  // namespace sluice::detail::dlpack
