// SPDX-License-Identifier: Apache-2.0
#include "nn/chains/row_chain_step.hpp"

#include <array>
#include <limits>
#include <utility>

#include "nn/operators/node_call.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

shared_tensor<std::byte> uploaded_image(std::vector<std::byte> image, execution_context& context) {
    const std::size_t bytes = image.size();
    return shared_tensor<std::byte>(upload(std::move(image), {bytes}).submit(context));
}

}  // namespace

row_chain_step::row_chain_step(prepared_graph steps, kernels::packed_row_chain chain, bool takes_matrix,
                               execution_context& context)
    : joined_steps(std::move(steps)),
      form_(chain.form),
      image_(uploaded_image(std::move(chain.image), context)),
      takes_matrix_(takes_matrix),
      definition_{.name = "Gemm",
                  .least_inputs = 1,
                  .most_inputs = std::numeric_limits<std::size_t>::max(),
                  .most_outputs = 1,
                  .attributes = {},
                  .run = nullptr} {}

std::optional<std::vector<any_tensor>> row_chain_step::submit(const std::filesystem::path& path,
                                                              execution_context& context,
                                                              std::span<const any_tensor> inputs) const {
    const any_tensor& x = inputs[0];
    const bool is_wide = x.type() == io::dtype::f32;
    if ((!is_wide && x.type() != static_cast<io::dtype>(form_.type)) || !x.is_on_device() || x.elements() == 0 ||
        x.shape().empty() || x.shape().back() != form_.inputs() || (takes_matrix_ && x.shape().size() != 2))
        return {};
    const std::size_t rows = x.elements() / form_.inputs();
    if (!kernels::has_row_chain(form_, rows, context.device().properties())) return {};

    const step& last = body().steps.back();
    const operators::run_environment environment{
        .path = &path, .command_name = definition_.name, .context = &context, .run_graph = {}};
    std::vector<any_tensor> none(1);
    const operators::node_call call(environment, *last.from, last.position, last.opset, operators::place::device,
                                    inputs, none);
    operators::lengths shape = x.shape();
    shape.back() = form_.outputs();
    std::vector<any_tensor> made{call.make(io::dtype::f32, std::move(shape))};

    kernels::row_chain_call closure{};
    const launch_command command = kernels::row_chain_command(
        form_,
        {image_->device_data(), x.memory()->data(), static_cast<float*>(made[0].memory()->data()), rows, is_wide},
        closure);
    const std::array accesses{memory_access{x.memory(), access_mode::read},
                              memory_access{image_->memory(), access_mode::read},
                              memory_access{made[0].memory(), access_mode::write}};
    context.stream().launch({definition_.name, accesses}, command);
    return made;
}

}  // namespace sluice::nn::detail
