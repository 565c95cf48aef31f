// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/gemm_tuning.hpp"

#include <cctype>
#include <cstdlib>

#include "kernels/gemm/gemm_dispatch.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

std::filesystem::path cache_folder() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in Sluice changes the environment
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && cache[0] == '/')
        return std::filesystem::path(cache) / "sluice";  // a relative one is invalid
    const char* const home = std::getenv("HOME");        // NOLINT(concurrency-mt-unsafe): as above
    if (home != nullptr && home[0] != '\0') return std::filesystem::path(home) / ".cache" / "sluice";
    throw error(errc::invalid_argument, "neither XDG_CACHE_HOME nor HOME says where tables are kept", {"gemm"});
}

}  // namespace

std::filesystem::path gemm_table_file(const device_properties& gpu) {
    std::string name = "gemm-";
    for (const char each : gpu.name) {
        const bool is_plain = std::isalnum(static_cast<unsigned char>(each)) != 0;
        if (is_plain) name += static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
        if (!is_plain && name.back() != '-') name += '-';
    }
    return cache_folder() / (name + ".txt");
}

std::vector<gemm_problem> usual_gemm_problems() {
    std::vector<gemm_problem> all;
    const auto add = [&](bool transposed, std::size_t rows, std::size_t columns, std::size_t inner) {
        all.push_back({gemm_type::bf16, transposed, rows, columns, inner});
    };
    for (const std::size_t size : {256, 512, 768, 2048, 3072, 8192}) add(true, size, size, size);
    for (const std::size_t size : {256, 512, 1024, 2048, 4096, 8192}) add(false, size, size, size);
    for (const std::size_t rows : {16, 64, 256, 1024, 4096, 16384}) {  // layers of networks
        for (const std::size_t width : {512, 1024, 4096}) add(true, rows, width, width);
        add(true, rows, 512, 784);
        add(true, rows, 4096, 1024);
        add(true, rows, 1024, 4096);
    }
    for (const std::size_t rows : {128, 512, 2048, 8192}) {  // and of language models
        add(true, rows, 11008, 4096);
        add(true, rows, 4096, 11008);
    }
    add(true, 1000, 1000, 1000);  // what no tile divides
    add(true, 4104, 4104, 4104);
    add(false, 2056, 3080, 520);
    add(true, 333, 1544, 8192);
    return all;
}

std::vector<gemm_measurement> tune_gemm(device& gpu, std::span<const gemm_problem> problems,
                                        const std::filesystem::path& file,
                                        const std::function<void(const gemm_measurement&)>& done) {
    const error_context context{"tune_gemm", gpu.name()};
    if (gpu.kind() != device_kind::cuda) {
        throw error(errc::unsupported, "there is nothing to choose on a device that is not a GPU", context);
    }
    for (const gemm_problem& each : problems) {
        if (each.type == gemm_type::f32) {
            throw error(errc::unsupported, "f32 products are always cuBLASLt's", context);
        }
        if (each.rows == 0 || each.columns == 0 || each.inner == 0) {
            throw error(errc::invalid_argument, "a product without elements cannot be measured", context);
        }
    }
    return kernels::tune_gemm_on_cuda(gpu, problems, file, done);
}

}  // namespace sluice
