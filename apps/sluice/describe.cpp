// SPDX-License-Identifier: Apache-2.0
#include "describe.hpp"

#include <iomanip>
#include <limits>
#include <ostream>
#include <sstream>

#include "json_line.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/runtime/runtime.hpp"
#include "text_table.hpp"

namespace sluice::app {
namespace {

std::string gibibytes(std::size_t bytes) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(1) << static_cast<double>(bytes) / (std::size_t{1} << 30) << " GiB";
    return text.str();
}
std::string kibibytes(std::size_t bytes) { return std::to_string(bytes >> 10) + " KiB"; }

std::string text_of(const priority_range& range) {
    const bool is_any = range.lowest == std::numeric_limits<int>::max();
    return is_any ? "any" : std::to_string(range.lowest) + " to " + std::to_string(range.highest);
}

}  // namespace

void describe_devices(const runtime& machine, bool as_json, std::ostream& out) {
    auto list = nlohmann::json::array();
    text_table table({"device", "name", "units", "memory", "free"});
    text_table limits({"device", "threads per block", "warp", "shared per block", "concurrent kernels", "copy engines",
                       "priorities"});
    text_table precisions({"device", "bf16", "f16", "int8"});
    for (const device* each : machine.devices()) {
        const device_properties& properties = each->properties();
        const auto how = [&](nn::precision what) { return nn::support_of(what, *each).how; };
        const std::string bf16 = how(nn::precision::bf16), f16 = how(nn::precision::f16),
                          int8 = how(nn::precision::int8);
        const memory_info memory = each->memory();
        const priority_range priorities = each->priorities();
        list.push_back({{"device", each->name()},
                        {"name", properties.name},
                        {"compute_units", properties.compute_units},
                        {"compute_capability", properties.compute_capability},
                        {"memory_bytes", memory.total_bytes},
                        {"free_bytes", memory.free_bytes},
                        {"max_threads_per_block", properties.max_threads_per_block},
                        {"warp_size", properties.warp_size},
                        {"max_shared_bytes_per_block", properties.max_shared_bytes_per_block},
                        {"precisions", {{"bf16", bf16}, {"f16", f16}, {"int8", int8}}},
                        {"concurrent_kernels", properties.concurrent_kernels},
                        {"async_copy_engines", properties.async_copy_engines},
                        {"lowest_priority", priorities.lowest},
                        {"highest_priority", priorities.highest}});
        table.add({each->name(), properties.name, std::to_string(properties.compute_units),
                   gibibytes(memory.total_bytes), gibibytes(memory.free_bytes)});
        limits.add({each->name(), std::to_string(properties.max_threads_per_block),
                    std::to_string(properties.warp_size), kibibytes(properties.max_shared_bytes_per_block),
                    properties.concurrent_kernels ? "yes" : "no", std::to_string(properties.async_copy_engines),
                    text_of(priorities)});
        precisions.add({each->name(), bf16, f16, int8});
    }
    if (as_json) {
        out << json_line({{"devices", list}, {"why_no_gpu", machine.why_no_gpu()}}) << '\n';
        return;
    }
    out << table << '\n' << limits << '\n' << precisions;
    if (!machine.why_no_gpu().empty()) out << "no GPU: " << printable(machine.why_no_gpu()) << '\n';
}

}  // namespace sluice::app
