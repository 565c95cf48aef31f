// SPDX-License-Identifier: Apache-2.0
// joined_steps: steps of a network that one step stands for. Where it can, it submits fewer commands than they do.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "nn/prepared_network.hpp"

namespace sluice::nn::detail {

class joined_steps {
public:
    explicit joined_steps(prepared_graph body) : body_(std::move(body)) {}
    joined_steps(const joined_steps&) = delete;
    joined_steps& operator=(const joined_steps&) = delete;
    virtual ~joined_steps() = default;

    // The steps themselves: what is computed.
    const prepared_graph& body() const noexcept { return body_; }

    // Submits its commands and gives the body's outputs. Nothing where it cannot take inputs of these types and shapes:
    // then the steps are to be carried out one by one. Throws what the operators say of wrong shapes.
    virtual std::optional<std::vector<any_tensor>> submit(const std::filesystem::path& path, execution_context& context,
                                                          std::span<const any_tensor> inputs) const = 0;

    // Before the steps are carried out one by one: inputs that came in fewer bits than the steps take become what they
    // take. Without a context only shapes matter.
    virtual void widen(const std::filesystem::path&, execution_context*, std::vector<any_tensor>&) const {}

private:
    const prepared_graph body_;
};

}  // namespace sluice::nn::detail
