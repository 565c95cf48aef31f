// SPDX-License-Identifier: Apache-2.0
// The fixture of the tests of modules: functions of the test modules, and whether a module is still used.
#pragma once

#include <memory>
#include <string_view>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/module_sources.hpp"
#include "sluice/cuda/kernel_module.hpp"

namespace sluice::conformance {

using axpy_signature = void(unsigned, float, const float*, float*);
using set_signature = void(unsigned, unsigned, unsigned*);

class module_test : public conformance_test {
protected:
    kernel_module load(std::string_view text) { return load_module(on, bytes_of(text), "test.ptx"); }

    // y = a * x + y
    static auto axpy(const module_function<axpy_signature>& function, float a, tensor<float> x, tensor<float> y) {
        const auto size = static_cast<unsigned>(y.size());
        return function(blocks_over(size, 64), size, a, std::move(x), std::move(y));
    }
    static auto set_all(const module_function<set_signature>& function, unsigned to, tensor<unsigned> x) {
        const auto size = static_cast<unsigned>(x.size());
        return function(blocks_over(size, 64), size, to, std::move(x));
    }

    // Whether no command and no graph keeps the module. A thread of the runtime may drop the last of them, soon.
    bool is_dropped(const std::weak_ptr<const detail::loaded_module>& module) {
        for (int i = 0; i < 10'000 && !module.expired(); ++i) {
            on.synchronize();
            on.trim();
            std::this_thread::yield();
        }
        return module.expired();
    }

    round_robin pool{on, 2};
};

}  // namespace sluice::conformance
