// SPDX-License-Identifier: Apache-2.0
// Types of elements and tensors between C and C++.
#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "c/handles.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/nn/prepared.hpp"

namespace sluice::c {

// Empty for a number that is no type.
std::optional<io::dtype> dtype_from(sluice_type type) noexcept;
sluice_type type_from(io::dtype type) noexcept;

// The tensors as copies, or where they are in the memory of a GPU; checked as far as the network does not check them.
std::vector<nn::any_tensor> inputs_from(const loaded_network& network, const sluice_tensor* inputs, std::size_t count,
                                        std::string_view function);

// Views of the memory that a blocking call is given. Some dozens of them need no memory from elsewhere.
class call_views {
public:
    call_views() = default;
    call_views(const call_views&) = delete;  // the views are in it
    call_views& operator=(const call_views&) = delete;

    // Checks the tensors as inputs_from does. False, and no view, where one of them is in the memory of a GPU or has
    // more dimensions than a view has.
    bool take_inputs(const loaded_network& network, const sluice_tensor* from, std::size_t count,
                     std::string_view function);
    // The same for some of the network's inputs: those with these numbers.
    bool take_inputs(const loaded_network& network, std::span<const std::size_t> which, const sluice_tensor* from,
                     std::string_view function);
    // Throws errc::invalid_argument and errc::shape_mismatch for what no output could be.
    bool take_outputs(const loaded_network& network, const sluice_buffer* from, std::size_t count,
                      std::string_view function);

    std::span<const nn::input_view> inputs() const noexcept { return inputs_; }
    std::span<const nn::output_view> outputs() const noexcept { return outputs_; }

private:
    template <typename Which>
    bool take_inputs(const loaded_network& network, std::size_t count, const Which& which, const sluice_tensor* from,
                     std::string_view function);

    alignas(std::max_align_t) std::array<std::byte, 4096> room_;
    std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
    std::pmr::vector<nn::input_view> inputs_{&memory_};
    std::pmr::vector<nn::output_view> outputs_{&memory_};
};

// A wrong pointer often shows as a wild rank, which refuse_it(text) refuses.
constexpr std::size_t most_dimensions = 64;
template <typename Refuse>
void require_rank(std::size_t rank, const Refuse& refuse_it) {
    if (rank <= most_dimensions) return;
    refuse_it("has " + std::to_string(rank) + " dimensions; at most " + std::to_string(most_dimensions) +
              " are possible");
}

// What a list of shapes of inputs says. Throws errc::invalid_argument for what is wrong with it.
std::vector<nn::input_shape> shapes_from(const sluice_input_shape* from, std::size_t count, std::string_view function);

// A copy of a tensor in host memory. Throws errc::invalid_argument for another one, and for what is wrong with it.
nn::any_tensor host_copy(const sluice_tensor& from, std::string_view function);

}  // namespace sluice::c
