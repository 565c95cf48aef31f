// SPDX-License-Identifier: Apache-2.0
// row_chain_step: dense layers, with activations and layer norms between them, as one kernel of a GPU
// (kernels/row_chain). Of many rows the steps are carried out one by one.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "kernels/row_chain/row_chain.hpp"
#include "nn/joined_steps.hpp"
#include "nn/operators/table.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::nn::detail {

class row_chain_step : public joined_steps {
public:
    // The body's first input is the rows, the others are constants; its output is that of the last layer. Uploads the
    // image.
    row_chain_step(prepared_graph body, kernels::packed_row_chain chain, bool takes_matrix, execution_context& context);

    const operators::definition& definition() const noexcept { return definition_; }

    std::optional<std::vector<any_tensor>> submit(const std::filesystem::path& path, execution_context& context,
                                                  std::span<const any_tensor> inputs) const override;

private:
    const kernels::row_chain_form form_;
    const shared_tensor<std::byte> image_;
    const bool takes_matrix_;
    const operators::definition definition_;
};

}  // namespace sluice::nn::detail
