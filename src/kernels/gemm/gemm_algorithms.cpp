// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/gemm_algorithms.hpp"

#include <filesystem>
#include <iostream>
#include <mutex>

#include "cuda/api/runtime.hpp"
#include "cuda/cublaslt_plans.hpp"
#include "kernels/gemm/gemm_hopper.hpp"

namespace sluice::kernels {
namespace {

std::map<std::string, gemm_algorithm> all_ways() {
    std::map<std::string, gemm_algorithm> all;
    const auto add = [&](const gemm_algorithm& way) { all.emplace(to_string(way), way); };
    for (unsigned char i = 0; i < most_library_proposals; ++i) add({gemm_algorithm::by::library, i});
    for (std::size_t i = 0; i < hopper_tiles().size(); ++i)
        add({gemm_algorithm::by::wgmma, static_cast<unsigned char>(i)});
    add({gemm_algorithm::by::tiles, 0});
    return all;
}

void warn(const std::string& what) { std::clog << "sluice: " + what + "\n"; }  // one write

std::filesystem::path file_or_none(const device_properties& gpu) {
    try {
        return gemm_table_file(gpu);
    } catch (const error&) {
        return {};  // a process without a home has no table
    }
}

}  // namespace

gemm_algorithms::gemm_algorithms(cuda::device_context& of)
    : origin_{of.properties().name, cuda::api::driver_version(), static_cast<unsigned>(cuda::cublaslt::version())} {
    const std::filesystem::path file = file_or_none(of.properties());
    if (file.empty()) return;
    const auto known = all_ways();
    for (const gemm_measurement& each : usable_gemm_table(file, origin_, warn).entries) {
        const auto way = known.find(each.fastest);
        if (way != known.end()) ways_[each.of] = way->second;
    }
}

std::optional<gemm_algorithm> gemm_algorithms::find(const gemm_problem& problem) const {
    const std::shared_lock lock(mutex_);
    const auto found = ways_.find(problem);
    if (found == ways_.end()) return std::nullopt;
    return found->second;
}

void gemm_algorithms::add(const gemm_problem& problem, const gemm_algorithm& way) {
    const std::unique_lock lock(mutex_);
    ways_[problem] = way;
}

}  // namespace sluice::kernels
