// SPDX-License-Identifier: Apache-2.0
// The modules of a GPU that no object uses any more. The driver unloads a module with a call that may wait for the GPU,
// and that host callbacks must not make. So a module that is dropped only moves to this list, on any thread. It is
// unloaded when a module is loaded while the GPU is idle, by device::trim(), and with the device.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <new>

#include "cuda/api/module.hpp"
#include "cuda/api/runtime.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::cuda {

class retired_modules {
public:
    explicit retired_modules(const api::gpu_context& of) noexcept : context_(of) {}

    // Takes over the only element. Calls the driver only after close().
    void put(std::list<CUmod_st*>& dropped) noexcept {
        {
            const std::lock_guard lock(mutex_);
            list_.splice(list_.end(), dropped);
            if (!is_closed_) return;
        }
        unload_all();
    }

    // Calls the driver, which may wait for the GPU.
    void unload_all() noexcept {
        std::list<CUmod_st*> unloaded;
        {
            const std::lock_guard lock(mutex_);
            unloaded.swap(list_);
        }
        if (unloaded.empty()) return;
        const api::device_scope scope(context_, std::nothrow);
        if (!scope.is_open()) return;  // the context is gone, and the modules with it
        for (CUmod_st* const each : unloaded) api::unload_module(each);
    }

    // The device is being destroyed: nothing runs on it.
    void close() noexcept {
        {
            const std::lock_guard lock(mutex_);
            is_closed_ = true;
        }
        unload_all();
    }

private:
    const api::gpu_context& context_;
    std::mutex mutex_;
    std::list<CUmod_st*> list_;
    bool is_closed_ = false;
};

// The device's part of the list; modules that outlive the device share the list itself.
struct module_keeper {
    explicit module_keeper(device_context& of)
        : retired(std::make_shared<retired_modules>(api::gpu_context::of(of.ordinal()))) {}
    module_keeper(const module_keeper&) = delete;  // the destructor closes the list
    module_keeper& operator=(const module_keeper&) = delete;
    ~module_keeper() { retired->close(); }

    const std::shared_ptr<retired_modules> retired;
};

}  // namespace sluice::cuda
