// SPDX-License-Identifier: Apache-2.0
// The activations that the metadata of a network's file, or the caller who loads it, names.
#pragma once

#include <cstddef>

#include "sluice/nn/safetensors.hpp"

namespace sluice::nn {

struct named_activations {
    activation hidden = activation::none;
    activation output = activation::none;
};

// Throws file_error for metadata that are not known: a misspelt key would otherwise be ignored.
void check_metadata(const io::safetensors_view& file);

// Throws file_error when an activation is not known, named in two ways, or when neither names what a network of
// this number of layers needs.
named_activations activations_of(const io::safetensors_view& file, const safetensors_options& options,
                                 std::size_t layers);

}  // namespace sluice::nn
