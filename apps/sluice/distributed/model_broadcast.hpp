// SPDX-License-Identifier: Apache-2.0
// How the network gets from rank 0, which has read it, to the devices of all others: its outline as text, then its
// numbers: by NCCL where each rank has a GPU of its own, by MPI otherwise.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "rank_job.hpp"
#include "sluice/nn/mlp_model.hpp"
#include "sluice/nn/plan.hpp"

namespace sluice::app {

// Everything but the numbers.
nlohmann::json outline_of(const nn::mlp_model& model);
// A network of that outline, without weights.
nn::mlp_model model_from(const nlohmann::json& outline);

// The network on this rank's device, with rank 0's numbers; blocks. Every rank calls it.
nn::plan bring_network(rank_job& job, nn::mlp_model model, device& mine, scheduling_policy& pool);

}  // namespace sluice::app
