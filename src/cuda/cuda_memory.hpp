// SPDX-License-Identifier: Apache-2.0
// The sources from which the pools of a GPU allocate memory.
#pragma once

#include "cuda/api/memory.hpp"
#include "cuda/api/runtime.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::cuda {

class device_memory final : public memory_source {
public:
    explicit device_memory(int ordinal) : ordinal_(ordinal) {}

    void* allocate(std::size_t bytes) override {
        const api::device_scope scope(ordinal_);
        return api::allocate_device(bytes);
    }
    void free(void* data, std::size_t) noexcept override { api::free_device(data); }
    memory_info info() override { return api::memory(ordinal_); }

private:
    const int ordinal_;
};

// Page-locked host memory, which the copy engines can access directly.
class pinned_memory final : public memory_source {
public:
    explicit pinned_memory(int ordinal) : ordinal_(ordinal) {}

    void* allocate(std::size_t bytes) override {
        const api::device_scope scope(ordinal_);
        return api::allocate_pinned(bytes);
    }
    void free(void* data, std::size_t) noexcept override { api::free_pinned(data); }
    memory_info info() override { return {}; }  // the system does not report how much may be locked

private:
    const int ordinal_;
};

}  // namespace sluice::cuda
