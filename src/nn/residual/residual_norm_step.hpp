// SPDX-License-Identifier: Apache-2.0
// residual_norm_step: Add and the LayerNormalization of the sum, as one kernel of a GPU. It may give the sum, the
// normalized sum, and the latter in 16 bits for the products that round it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nn/joined_steps.hpp"
#include "nn/operators/table.hpp"
#include "sluice/io/dtype.hpp"

namespace sluice::nn::detail {

struct residual_outputs {
    bool sum = false, normalized = false;
    std::optional<io::dtype> narrow = {};  // the type of 16 bits
};

class residual_norm_step : public joined_steps {
public:
    // The body is the two steps. Its outputs are those that are wanted, in this order; in place of the narrow one it
    // has the normalized sum once more.
    // `narrow_inputs`: see joined_steps.
    residual_norm_step(prepared_graph body, const residual_outputs& outputs, std::vector<bool> narrow_inputs = {});

    const operators::definition& definition() const noexcept { return definition_; }
    bool gives_narrow() const noexcept { return outputs_.narrow.has_value(); }  // as the last output
    // Whether this input of the body is added: it may come in 16 bits.
    bool is_addend(std::size_t input) const;

    std::optional<std::vector<any_tensor>> submit(const std::filesystem::path& path, execution_context& context,
                                                  std::span<const any_tensor> inputs) const override;
    // The same with these inputs in 16 bits.
    std::shared_ptr<const residual_norm_step> narrowed(std::vector<bool> inputs) const;

private:
    const residual_outputs outputs_;
    const operators::definition definition_;
};

}  // namespace sluice::nn::detail
