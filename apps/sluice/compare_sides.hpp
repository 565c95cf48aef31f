// SPDX-License-Identifier: Apache-2.0
// The two sides of a comparison, and inputs that hold the same numbers for both.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compare_command.hpp"
#include "sluice/nn/network.hpp"

namespace sluice::app {

// Which of b's values belongs to each of a's: by name where both have the same names, else by place. Throws
// errc::shape_mismatch for different numbers of them; `what` is "inputs" or "outputs".
struct value_pairs {
    std::vector<std::size_t> of_a;
    bool is_by_place = false;
};
value_pairs pair_values(const std::vector<nn::value_info>& a, const std::vector<nn::value_info>& b,
                        const std::string& what);

// A network, or a file with the only output of one.
class compared_side {
public:
    // Reads the file.
    compared_side(const std::filesystem::path& file, const nn::safetensors_options& options);

    bool is_network() const noexcept { return !stored_; }
    const std::vector<nn::value_info>& outputs() const noexcept { return outputs_; }
    // Puts a network on the policy's device; blocks.
    void bring(scheduling_policy& pool);
    // Afterwards.
    const nn::network& network() const noexcept { return *ready_; }
    // The network's for these inputs, or those of the file; blocks.
    std::vector<nn::any_tensor> outputs_for(const std::vector<nn::any_tensor>& inputs, scheduling_policy* pool) const;

private:
    std::vector<nn::value_info> outputs_;
    nn::any_tensor stored_;
    std::optional<nn::model> loaded_;
    std::optional<nn::network> ready_;
};

// Those of the first side that is a network, and the same in the other's order and types.
class same_inputs {
public:
    // Throws errc::shape_mismatch for types that cannot hold the same numbers.
    same_inputs(const compare_options& options, const compared_side& a, const compared_side& b);

    const std::vector<nn::any_tensor>& of_a() const noexcept { return of_a_; }
    const std::vector<nn::any_tensor>& of_b() const noexcept { return of_b_.empty() ? of_a_ : of_b_; }
    // Where the numbers come from, and how many rows there are.
    const std::string& source() const noexcept { return source_; }

private:
    std::vector<nn::any_tensor> of_a_, of_b_;
    std::string source_;
};

}  // namespace sluice::app
