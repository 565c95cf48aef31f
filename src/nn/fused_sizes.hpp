// SPDX-License-Identifier: Apache-2.0
// When a stretch of dense layers is one command on a CPU.
#pragma once

#include <cstddef>

namespace sluice::nn {

// Measured (bench/results, fused_mlp_cpu): networks of few weights are faster fused at every number of rows, others at
// the few rows for which a library would read all weights again and again.
inline constexpr std::size_t always_fused_bytes_on_cpu = std::size_t{4} << 20;
inline constexpr std::size_t fused_rows_on_cpu = 16;

// Of networks of any operators, whose commands all workers share: 23 MB of weights are 1.7 to 3.5 times as fast fused
// as by oneDNN 2.6.3, with two workers and 1 to 1024 rows (bench/results, network_cpu).
inline constexpr std::size_t most_fused_bytes_of_networks = std::size_t{64} << 20;

}  // namespace sluice::nn
