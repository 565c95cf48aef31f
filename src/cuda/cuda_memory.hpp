// SPDX-License-Identifier: Apache-2.0
// The sources from which the pools of a GPU allocate memory.
#pragma once

#include "cuda/api/gpu_context.hpp"
#include "cuda/api/memory.hpp"
#include "cuda/api/pinned.hpp"
#include "cuda/api/runtime.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::cuda {

class device_memory final : public memory_source {
public:
    explicit device_memory(const api::gpu_context& context) : context_(context) {}

    void* allocate(std::size_t bytes) override {
        const api::device_scope scope(context_);
        return api::allocate_device(bytes);
    }
    void free(void* data, std::size_t) noexcept override { api::free_device(context_, data); }
    memory_info info() override { return api::memory(context_); }

private:
    const api::gpu_context& context_;
};

// Page-locked host memory, which the copy engines can access directly.
class pinned_memory final : public memory_source {
public:
    explicit pinned_memory(const api::gpu_context& context) : context_(context) {}

    void* allocate(std::size_t bytes) override {
        const api::device_scope scope(context_);
        return api::allocate_pinned(bytes);
    }
    void free(void* data, std::size_t bytes) noexcept override { api::free_pinned(context_, data, bytes); }
    memory_info info() override { return {}; }  // the system does not report how much may be locked

private:
    const api::gpu_context& context_;
};

}  // namespace sluice::cuda
