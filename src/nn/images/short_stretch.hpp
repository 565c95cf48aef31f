// SPDX-License-Identifier: Apache-2.0
// short_image_stretch: an image_stretch on a GPU, in f16 or bf16 (kernels/image_batch).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/image_batch/image_batch.hpp"
#include "nn/images/stretch.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::nn::detail {

class short_image_stretch : public image_stretch {
public:
    // `what` is f16 or bf16. On a GPU that has image batches, and on a CPU device, which computes the same without
    // libraries, for tests.
    short_image_stretch(prepared_graph body, precision what, execution_context& context);

    // Whether the type has finite numbers for all weights. If not, do not submit it.
    bool is_possible() const noexcept { return is_possible_; }

    // Blocks when it sees inputs of these shapes for the first time: it tries algorithms.
    std::optional<std::vector<any_tensor>> submit(const std::filesystem::path& path, execution_context& context,
                                                  std::span<const any_tensor> inputs) const override;

    // How each of the steps is carried out for such inputs: for benchmarks. Empty where submit gives nothing.
    std::string text(const std::filesystem::path& path, std::span<const any_tensor> inputs) const;

private:
    struct program {
        image_layout layout;
        shared_tensor<std::byte> numbers;           // on the device
        std::unique_ptr<kernels::batch_plan> plan;  // of a GPU
        std::size_t scratch_bytes = 0;
        kernels::short_type type = kernels::short_type::f16;
    };
    // `name` names the program among a command's accesses: a queue or a graph that keeps the command keeps the program.
    struct kept_program {
        std::shared_ptr<const program> what;
        any_tensor name;
    };
    static void run(const native_stream& on, const void* closure);
    std::shared_ptr<const kept_program> find(const std::filesystem::path& path,
                                             std::span<const any_tensor> inputs) const;
    std::shared_ptr<const kept_program> make_program(const std::filesystem::path& path,
                                                     std::span<const any_tensor> inputs) const;

    struct closure;

    device& on_;
    kernels::short_type type_;
    image_recipe recipe_;
    std::optional<shared_tensor<std::byte>> numbers_;
    bool is_possible_ = false;
    mutable programs_of_shapes<kept_program> programs_;
};

}  // namespace sluice::nn::detail
