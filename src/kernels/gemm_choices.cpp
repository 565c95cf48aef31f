#include "kernels/gemm_choices.hpp"

#include <iostream>
#include <mutex>

#include "cuda/api/runtime.hpp"
#include "cuda/cublaslt.hpp"
#include "kernels/gemm_hopper.hpp"

namespace sluice::kernels {
namespace {

std::map<std::string, gemm_way> all_ways() {
    std::map<std::string, gemm_way> all;
    const auto add = [&](const gemm_way& way) { all.emplace(to_string(way), way); };
    for (unsigned char i = 0; i < most_library_proposals; ++i) add({gemm_way::by::library, i});
    for (std::size_t i = 0; i < hopper_tiles().size(); ++i) add({gemm_way::by::wgmma, static_cast<unsigned char>(i)});
    add({gemm_way::by::tiles, 0});
    return all;
}

void warn(const std::string& what) { std::clog << "sluice: " << what << '\n'; }

std::filesystem::path file_or_none(const device_properties& gpu) {
    try {
        return gemm_table_file(gpu);
    } catch (const error&) {
        return {};  // a process without a home has no table
    }
}

}  // namespace

gemm_choices::gemm_choices(cuda::device_context& of)
    : origin_{of.properties().name, cuda::api::driver_version(), static_cast<unsigned>(cuda::cublaslt::version())} {
    const std::filesystem::path file = file_or_none(of.properties());
    if (file.empty()) return;
    const auto known = all_ways();
    for (const gemm_measurement& each : usable_gemm_table(file, origin_, warn).entries) {
        const auto way = known.find(each.fastest);
        if (way != known.end()) ways_[each.of] = way->second;
    }
}

std::optional<gemm_way> gemm_choices::find(const gemm_problem& problem) const {
    const std::shared_lock lock(mutex_);
    const auto found = ways_.find(problem);
    if (found == ways_.end()) return std::nullopt;
    return found->second;
}

void gemm_choices::add(const gemm_problem& problem, const gemm_way& way) {
    const std::unique_lock lock(mutex_);
    ways_[problem] = way;
}

}  // namespace sluice::kernels
