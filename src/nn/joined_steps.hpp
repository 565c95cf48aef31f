// SPDX-License-Identifier: Apache-2.0
// joined_steps: steps of a network that one step stands for. Where it can, it submits fewer commands than they do.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

class joined_steps {
public:
    // `narrow_inputs`: those inputs of the body that are f32 for the steps and come in 16 bits; none where it is empty.
    explicit joined_steps(prepared_graph body, std::vector<bool> narrow_inputs = {})
        : body_(std::move(body)), narrow_inputs_(std::move(narrow_inputs)) {}
    joined_steps(const joined_steps&) = delete;
    joined_steps& operator=(const joined_steps&) = delete;
    virtual ~joined_steps() = default;

    // The steps themselves: what is computed.
    const prepared_graph& body() const noexcept { return body_; }

    // Submits its commands and gives the body's outputs. Nothing where it cannot take inputs of these types and shapes:
    // then the steps are to be carried out one by one. Throws what the operators say of wrong shapes.
    virtual std::optional<std::vector<any_tensor>> submit(const std::filesystem::path& path, execution_context& context,
                                                          std::span<const any_tensor> inputs) const = 0;

    // Before the steps are carried out one by one: inputs that came in 16 bits become f32, which the steps take. Others
    // stay as they are, also those that the model has in 16 bits. Without a context only shapes matter.
    void widen(const std::filesystem::path& path, execution_context* context, std::vector<any_tensor>& inputs) const;

protected:
    bool comes_narrow(std::size_t input) const { return input < narrow_inputs_.size() && narrow_inputs_[input]; }

private:
    const prepared_graph body_;
    const std::vector<bool> narrow_inputs_;
};

}  // namespace sluice::nn::detail
