// SPDX-License-Identifier: Apache-2.0
// The table of the measurements of gemm_tuning.hpp, on disk:
//
//     sluice gemm table 1
//     device NVIDIA H200
//     driver 13000
//     library 130100
//     kernels 2
//     entries 1
//     bf16 transposed 4096 4096 4096 181.5 190.25 wgmma 128x256 in pairs
//     checksum 1f2e3d4c5b6a7988
//
// An entry: type, b, rows, columns, inner, microseconds, those of cuBLASLt's first proposal, the fastest way.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/kernels/gemm_tuning.hpp"

namespace sluice::kernels {

// Raised when kernels or their names change.
inline constexpr unsigned gemm_kernels_version = 2;

// What a table is good for.
struct gemm_table_origin {
    std::string device;
    unsigned driver = 0;
    unsigned library = 0;
    unsigned kernels = gemm_kernels_version;

    friend bool operator==(const gemm_table_origin&, const gemm_table_origin&) = default;
};

struct gemm_table {
    gemm_table_origin origin;
    std::vector<gemm_measurement> entries;
};

std::string to_text(const gemm_table& table);
// Throws file_error for a text that is not exactly a table. `file` is for its message.
gemm_table gemm_table_from_text(std::string_view text, const std::filesystem::path& file);

// Makes the folders that are missing, and puts the whole table in the place of the old one. Throws file_error.
void write_gemm_table(const std::filesystem::path& file, const gemm_table& table);

// The table in the file, if it can be used here; else an empty one, and unless there is no file `warn` hears why.
gemm_table usable_gemm_table(const std::filesystem::path& file, const gemm_table_origin& here,
                             const std::function<void(const std::string&)>& warn);

}  // namespace sluice::kernels
