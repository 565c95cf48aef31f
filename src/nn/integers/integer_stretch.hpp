// SPDX-License-Identifier: Apache-2.0
// integer_stretch: steps of a network on integers of 8 bits that one command of a CPU carries out
// (kernels/integer_images): convolutions, poolings, dense layers and groups of bytes (byte_groups.hpp), what quantizes
// their inputs and what dequantizes their outputs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/integer_images/integer_program.hpp"
#include "nn/images/stretch.hpp"
#include "nn/integers/byte_groups.hpp"
#include "nn/integers/integer_weights.hpp"
#include "nn/joined_steps.hpp"

namespace sluice::nn::detail {

// What a step can be in a stretch.
enum class integer_role : unsigned char {
    none,
    quantize,     // only before a convolution
    convolution,  // may begin a stretch
    pooling,
    flatten,  // only before layers
    layer,    // of what is flattened
    dequantize
};
integer_role integer_role_of(const prepared_graph& in, std::size_t step);

class integer_stretch final : public joined_steps {
public:
    // Each step of the body has a role or is of a group. Constants are in host memory.
    integer_stretch(prepared_graph body, const integer_weights& weights, const model& from, device& on);

    // Whether it knows all that does not depend on shapes. If not, it submits nothing.
    bool is_possible() const noexcept { return is_possible_; }

    std::optional<std::vector<any_tensor>> submit(const std::filesystem::path& path, execution_context& context,
                                                  std::span<const any_tensor> inputs) const override;

private:
    // A step of the body, or what comes in or goes out.
    struct work {
        kernels::integer_work what{};
        slot in = no_slot, out = no_slot;
        slot also = no_slot;      // the second value of two
        std::size_t step = 0;     // of the body
        bool is_layer = false;    // a convolution by one window, which is the whole image
        bool is_flat = false;     // gives its input, flattened
        std::size_t outside = 0;  // of enter, quantize, leave, dequantize
        bool is_signed = false, has_relu = false;
        kernels::byte_quantity quantity;  // of what it writes; of dequantize: reads
        kernels::byte_quantity read, also_read;
        bool counts_padding = false;     // of an average
        bool is_part = false;            // of a join
        std::vector<slot> parts_before;  // the same: the values before it
        std::uint8_t fill = 0;           // of a convolution: what its windows read around the image
        std::size_t groups = 1, numbers = 0;
    };
    // What is made once for all inputs of the same shapes.
    struct program {
        std::vector<any_tensor> outputs;  // types and shapes
        any_tensor steps;                 // on the device
        std::size_t count = 0, images = 0, scratch_bytes = 0;
    };
    struct planner;

    bool read_body(const integer_weights& weights, const model& from, kernels::integer_numbers& numbers);
    bool add_group(const byte_group& group, const model& from, kernels::integer_numbers& numbers,
                   std::vector<std::size_t>& channels);
    bool add_work(const step& of, std::size_t at, const integer_weights& weights, kernels::integer_numbers& numbers,
                  std::vector<std::size_t>& channels);
    std::shared_ptr<const program> make_program(const std::filesystem::path& path,
                                                std::span<const any_tensor> inputs) const;

    device& on_;
    bool is_possible_ = false;
    std::vector<work> works_;
    std::vector<io::dtype> input_types_;
    any_tensor numbers_;
    mutable programs_of_shapes<program> programs_;
};

}  // namespace sluice::nn::detail
