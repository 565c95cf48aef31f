// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"

#include <utility>

#include "sluice/base/printable.hpp"

namespace sluice {
namespace {

class category final : public std::error_category {
public:
    const char* name() const noexcept override { return "sluice"; }

    std::string message(int code) const override {
        switch (static_cast<errc>(code)) {
            case errc::invalid_argument: return "invalid argument";
            case errc::shape_mismatch: return "shapes do not fit together";
            case errc::device_not_found: return "no such device";
            case errc::out_of_memory: return "out of memory";
            case errc::unsupported: return "not supported here";
            case errc::device_failed: return "the device failed";
            case errc::runtime_closed: return "the runtime has been destroyed";
            case errc::timed_out: return "the deadline has passed";
            case errc::canceled: return "stopped on request";
            case errc::graph_refused: return "cannot be in a graph";
            case errc::bad_file: return "file refused";
            case errc::io_failed: return "input or output failed";
            case errc::out_of_range: return "access out of range";
        }
        return "unknown error";
    }
};

std::string describe(const std::error_code& code, std::string_view message, const error_context& context) {
    std::string text;
    if (!context.operation.empty()) {
        text.append(context.operation);
        if (!context.device.empty()) text.append(" on ").append(context.device);
        text.append(": ");
    } else if (!context.device.empty()) {
        text.append(context.device).append(": ");
    }
    text.append(message);
    // Our own codes say no more than the message does.
    if (code.category() != sluice_category()) text.append(": ").append(code.message());
    if (context.location.line() != 0) {
        text.append(" (asked for at ").append(context.location.file_name());
        text.append(":").append(std::to_string(context.location.line())).append(")");
    }
    return printable(text);  // it may contain foreign text: names in files, devices, paths
}

std::string describe_file(const std::filesystem::path& path, std::uint64_t offset, std::string_view field,
                          std::string_view why) {
    std::string text = path.string();
    if (offset != file_error::no_offset) text.append(": at byte ").append(std::to_string(offset));
    if (!field.empty()) text.append(": ").append(field);
    text.append(": ").append(why);
    return text;
}

}  // namespace

const std::error_category& sluice_category() noexcept {
    static const category instance;
    return instance;
}

std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), sluice_category()}; }

error::error(std::error_code code, std::string_view message, const error_context& context)
    : std::system_error(code),
      what_(describe(code, message, context)),
      operation_(context.operation),
      device_(context.device),
      location_(context.location) {}

out_of_memory::out_of_memory(std::size_t requested_bytes, std::size_t free_bytes, const error_context& context,
                             std::size_t total_bytes)
    : error(
          errc::out_of_memory,
          "asked for " + std::to_string(requested_bytes) + " bytes, " + std::to_string(free_bytes) + " bytes are free",
          context),
      asked_bytes_(requested_bytes),
      free_bytes_(free_bytes),
      total_bytes_(total_bytes) {}

file_error::file_error(std::filesystem::path path, std::uint64_t offset, std::string_view field, std::string_view why,
                       errc code)
    : error(code, describe_file(path, offset, field, why)), path_(std::move(path)), offset_(offset), field_(field) {}

}  // namespace sluice
