// SPDX-License-Identifier: Apache-2.0
// tune_gemm: measures which algorithm of gemm is fastest for a shape on a GPU, and writes a table to disk. From then on
// every runtime on this machine that has such a GPU uses the table. `sluice tune` is a tool over this.
//
// A table is valid for the GPU, driver, cuBLASLt and kernels that it was measured with. A table of others, or a damaged
// one, is ignored, with one warning on standard error; gemm then chooses as if there were none.
#pragma once

#include <compare>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class device;
struct device_properties;

// Elements, and how they are multiplied: tf32 is float, rounded.
enum class gemm_type : unsigned char { f32, tf32, f16, bf16 };
std::string_view to_string(gemm_type type) noexcept;  // "f32", "tf32", "f16", "bf16"; costs O(1)

// out[rows, columns] = a[rows, inner] * b, where b is [inner, columns], or transposed.
struct gemm_problem {
    gemm_type type = gemm_type::f32;  // of the operands
    bool b_is_transposed = false;     // b is [columns, inner]
    std::size_t rows = 0;             // of a and of the product
    std::size_t columns = 0;          // of the product
    std::size_t inner = 0;            // of each sum: the length

    friend auto operator<=>(const gemm_problem&, const gemm_problem&) = default;  // in the order of the members
};

// What tune_gemm found for one problem.
struct gemm_measurement {
    gemm_problem of;                  // the problem
    std::string fastest;              // "cuBLASLt 0": its first proposal; "wgmma 128x256": ours, with this tile
    double microseconds = 0;          // of the fastest
    double library_microseconds = 0;  // of cuBLASLt's first proposal; 0 where it has none
};

// Where tables of this GPU are: $XDG_CACHE_HOME/sluice, or else ~/.cache/sluice. Throws errc::invalid_argument where
// neither is known. Costs O(bytes of the path).
std::filesystem::path gemm_table_file(const device_properties& gpu);

// Sixty shapes of large products, layers, few rows and long inner dimensions, in bf16. Costs O(problems).
std::vector<gemm_problem> usual_gemm_problems();

// Measures each problem, adds what was found to the table in the file and uses it from now on. `done` hears of each.
// Blocks, for up to a second a problem; other work on the GPU disturbs the measurement. Throws errc::unsupported for a
// device that is not a GPU, and for f32, where there is nothing to choose; file_error when the file cannot be written.
// Costs up to a second for each problem, and a write of the file.
std::vector<gemm_measurement> tune_gemm(device& gpu, std::span<const gemm_problem> problems,
                                        const std::filesystem::path& file,
                                        const std::function<void(const gemm_measurement&)>& done = {});

}  // namespace sluice
