// SPDX-License-Identifier: Apache-2.0
#include "sluice/trace/trace.hpp"

#include "sluice/io/write_file.hpp"

namespace sluice {

std::string_view to_string(trace_kind kind) noexcept {
    switch (kind) {
        case trace_kind::host_to_device: return "upload";
        case trace_kind::device_to_host: return "download";
        case trace_kind::device_to_device: return "device copy";
        case trace_kind::fill: return "fill";
        case trace_kind::kernel: return "kernel";
        case trace_kind::library_call: return "library call";
        case trace_kind::host_call: return "host call";
        case trace_kind::graph: return "graph";
        case trace_kind::stage: return "stage";
    }
    return "command";
}

void save_chrome_trace(const trace& of, const std::filesystem::path& file) {
    io::write_file(file, [&](std::ostream& to) { write_chrome_trace(of, to); });
}

void save_timeline(const trace& of, const std::filesystem::path& file, const timeline_options& options) {
    io::write_file(file, [&](std::ostream& to) { write_timeline(of, to, options); });
}

}  // namespace sluice
