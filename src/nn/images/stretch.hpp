// SPDX-License-Identifier: Apache-2.0
// image_stretch: steps of a network that one command carries out, with images kept channels last in between: of a CPU
// in f32 (kernels/channels_last), of a GPU in f16 or bf16 (kernels/image_batch).
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "nn/images/layout.hpp"
#include "nn/images/recipe.hpp"
#include "nn/joined_steps.hpp"

namespace sluice::nn::detail {

class image_stretch : public joined_steps {
public:
    // The steps have roles in recipes. Constants are in host memory.
    using joined_steps::joined_steps;
};

inline bool are_f32(std::span<const any_tensor> inputs) {
    return std::ranges::all_of(inputs, [](const any_tensor& each) { return each.type() == io::dtype::f32; });
}

// What is made once for all inputs of the same shapes; the 64 that were asked for first are kept, then all are dropped.
// Programs are shared by the commands that use them.
template <typename Program>
class programs_of_shapes {
public:
    // For inputs of the types that the caller's programs take. Null where there is none. `make` is called once for each
    // combination of shapes; callers with other shapes do not wait for it.
    template <typename Make>
    std::shared_ptr<const Program> find(std::span<const any_tensor> inputs, const Make& make) {
        constexpr std::size_t most = 64;
        std::vector<operators::lengths> key;
        for (const any_tensor& each : inputs) key.push_back(each.shape());
        const std::shared_ptr<entry> found = [&] {
            const std::scoped_lock lock(mutex_);
            if (const auto known = entries_.find(key); known != entries_.end()) return known->second;
            if (entries_.size() >= most) entries_.clear();
            return entries_.emplace(std::move(key), std::make_shared<entry>()).first->second;
        }();
        const std::scoped_lock lock(found->mutex);
        if (!found->is_made) found->program = make();
        found->is_made = true;
        return found->program;
    }

private:
    struct entry {
        std::mutex mutex;
        bool is_made = false;
        std::shared_ptr<const Program> program;
    };

    std::mutex mutex_;
    std::map<std::vector<operators::lengths>, std::shared_ptr<entry>> entries_;
};

// A copy that commands of a CPU device read: host memory is its memory.
any_tensor bytes_on_device(device& on, const void* from, std::size_t bytes);

// On a CPU device.
class cpu_image_stretch : public image_stretch {
public:
    cpu_image_stretch(prepared_graph body, device& on);

    std::optional<std::vector<any_tensor>> submit(const std::filesystem::path& path, execution_context& context,
                                                  std::span<const any_tensor> inputs) const override;

private:
    struct program {
        image_layout layout;
        any_tensor steps;  // the layout's, on the device
        kernels::image_tail tail;
    };
    std::shared_ptr<const program> make_program(const std::filesystem::path& path,
                                                std::span<const any_tensor> inputs) const;

    device& on_;
    image_recipe recipe_;
    any_tensor numbers_;
    mutable programs_of_shapes<program> programs_;
};

}  // namespace sluice::nn::detail
