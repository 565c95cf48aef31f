#include "sluice/runtime/trace.hpp"

#include <cerrno>
#include <fstream>
#include <system_error>

#include "sluice/runtime/error.hpp"

namespace sluice {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
    const std::string why = errno != 0 ? std::generic_category().message(errno) : "failed";
    throw file_error(file, file_error::no_offset, what, why, errc::io_failed);
}

template <class Write>
void save(const std::filesystem::path& file, Write write) {
    errno = 0;  // streams do not say why; what the system said last is the best there is
    std::ofstream stream(file, std::ios::binary | std::ios::trunc);
    if (!stream) fail(file, "create");
    write(stream);
    stream.close();  // a full disk may only show now
    if (!stream) fail(file, "write");
}

}  // namespace

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
    }
    return "command";
}

void save_chrome_trace(const trace& of, const std::filesystem::path& file) {
    save(file, [&](std::ostream& to) { write_chrome_trace(of, to); });
}

void save_timeline(const trace& of, const std::filesystem::path& file, const timeline_options& options) {
    save(file, [&](std::ostream& to) { write_timeline(of, to, options); });
}

}  // namespace sluice
