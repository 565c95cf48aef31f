// SPDX-License-Identifier: Apache-2.0
// When a stretch of dense layers is one command.
#pragma once

#include <cstddef>

namespace sluice::nn {

// 23 MB of weights are 1.7 to 3.5 times as fast fused as by oneDNN 2.6.3, with two workers and 1 to 1024 rows
// (bench/results, network_cpu). Larger ones were not measured.
inline constexpr std::size_t most_fused_bytes_on_cpu = std::size_t{64} << 20;
// Few rows are faster fused in any network: a library would read all weights again and again.
inline constexpr std::size_t fused_rows_on_cpu = 16;
// In 16 bits on a GPU: networks up to this width are faster fused at every number of rows (bench/results, fused_mlp, an
// H200).
inline constexpr std::size_t always_fused_width_on_gpu = 128;

}  // namespace sluice::nn
