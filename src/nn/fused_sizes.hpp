// SPDX-License-Identifier: Apache-2.0
// When a stretch of dense layers is one command on a CPU.
#pragma once

#include <cstddef>

namespace sluice::nn {

// 23 MB of weights are 1.7 to 3.5 times as fast fused as by oneDNN 2.6.3, with two workers and 1 to 1024 rows
// (bench/results, network_cpu). Larger ones were not measured.
inline constexpr std::size_t most_fused_bytes_on_cpu = std::size_t{64} << 20;
// Few rows are faster fused in any network: a library would read all weights again and again.
inline constexpr std::size_t fused_rows_on_cpu = 16;

}  // namespace sluice::nn
