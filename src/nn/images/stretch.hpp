// SPDX-License-Identifier: Apache-2.0
// image_stretch: steps of a network that one command of a CPU carries out, with images kept channels last in between
// (kernels/channels_last).
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "nn/images/layout.hpp"
#include "nn/images/recipe.hpp"

namespace sluice::nn::detail {

class image_stretch {
public:
    // The steps have roles in recipes. Constants are in host memory.
    image_stretch(prepared_graph body, device& on);
    image_stretch(const image_stretch&) = delete;
    image_stretch& operator=(const image_stretch&) = delete;

    const prepared_graph& body() const noexcept { return body_; }

    // Submits the command and gives its outputs. Nothing where it cannot take inputs of these shapes: then the steps
    // are to be carried out one by one. Throws what the operators say of wrong shapes.
    std::optional<std::vector<any_tensor>> submit(const std::filesystem::path& path, execution_context& context,
                                                  std::span<const any_tensor> inputs) const;

private:
    struct program {
        image_layout layout;
        any_tensor steps;  // the layout's, on the device
    };
    std::shared_ptr<const program> program_for(const std::filesystem::path& path,
                                               std::span<const any_tensor> inputs) const;

    const prepared_graph body_;
    device& on_;
    image_recipe recipe_;
    any_tensor numbers_;
    mutable std::mutex mutex_;
    // By the inputs' shapes; null where there is no program.
    mutable std::map<std::vector<operators::lengths>, std::shared_ptr<const program>> programs_;
};

}  // namespace sluice::nn::detail
