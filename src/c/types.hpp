// SPDX-License-Identifier: Apache-2.0
// Types of elements and tensors between C and C++.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "c/handles.hpp"
#include "sluice/io/dtype.hpp"

namespace sluice::c {

// Empty for a number that is no type.
std::optional<io::dtype> dtype_from(sluice_type type) noexcept;
sluice_type type_from(io::dtype type) noexcept;

// How long the memory of inputs stays: until the run's outputs are there, or until the function returns.
enum class input_memory { of_whole_run, of_call };

// The tensors, checked as far as the network does not check them. Those in host memory are copied, except large ones of
// a whole run on a CPU device.
std::vector<nn::any_tensor> inputs_from(const loaded_network& network, const sluice_tensor* inputs, std::size_t count,
                                        input_memory lasts, std::string_view function);

// A wrong pointer often shows as a wild rank, which refuse_it(text) refuses.
constexpr std::size_t most_dimensions = 64;
template <typename Refuse>
void require_rank(std::size_t rank, const Refuse& refuse_it) {
    if (rank <= most_dimensions) return;
    refuse_it("has " + std::to_string(rank) + " dimensions; at most " + std::to_string(most_dimensions) +
              " are possible");
}

// A copy of a tensor in host memory. Throws errc::invalid_argument for another one, and for what is wrong with it.
nn::any_tensor host_copy(const sluice_tensor& from, std::string_view function);

}  // namespace sluice::c
