// A network that rank 0 has read and checked, on every rank.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "rank_job.hpp"
#include "sluice/nn/mlp_model.hpp"

namespace sluice::app {

// All but the weights, for the other ranks.
nlohmann::json outline_of(const nn::mlp_model& model);
// A network of that outline, with room for the weights.
nn::mlp_model model_from(const nlohmann::json& outline);
// Fills in rank 0's weights and biases. Blocks until they are here. Of any size: they go in pieces.
void broadcast_weights(rank_job& job, nn::mlp_model& model);

}  // namespace sluice::app
