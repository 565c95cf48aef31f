// SPDX-License-Identifier: Apache-2.0
// A tuning_table on disk:
//
//     sluice kernel table 1
//     entries 1
//     device NVIDIA H200
//     kernels 2
//     kernel gemm_tiles<sluice::half, 64, 64, 32, false>
//     kernel gemm_tiles<sluice::half, 128, 64, 32, false>
//     shapes 2
//     shape 4096 4096
//     shape 4096 4096
//     fastest 1
//     microseconds 181.5
//     default 190.25
//     checksum 1f2e3d4c5b6a7988
//
// `default` is the time of the first kernel. A tensor of one element without dimensions has the line "shape -".
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/kernels/tuning_table.hpp"

namespace sluice::kernels {

inline constexpr std::size_t most_measurements = 1'000'000;

// Why a table cannot have this measurement; null when it can.
const char* why_not(const tuning_measurement& measured);

std::string to_text(std::span<const tuning_measurement> all);
// Throws file_error for a text that is not exactly a table. `file` is for its message.
std::vector<tuning_measurement> measurements_from_text(std::string_view text, const std::filesystem::path& file);

}  // namespace sluice::kernels
