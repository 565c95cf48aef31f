// SPDX-License-Identifier: Apache-2.0
#include "trace_files.hpp"

#include <exception>
#include <ostream>

#include "sluice/io/write_file.hpp"

namespace sluice::app {

trace_files::trace_files(const std::optional<std::filesystem::path>& chrome,
                         const std::optional<std::filesystem::path>& timeline) {
    if (chrome) chrome_.emplace(*chrome);
    if (timeline) timeline_.emplace(*timeline);
}

std::string trace_files::write(trace_recorder& from, const timeline_options& how) {
    try {
        return write(from.take(), how);
    } catch (const std::exception& failure) {
        return failure.what();
    }
}

std::string trace_files::write(const trace& made, const timeline_options& how) {
    try {
        if (chrome_) io::write_file(*chrome_, [&](std::ostream& to) { write_chrome_trace(made, to); });
        if (timeline_) io::write_file(*timeline_, [&](std::ostream& to) { write_timeline(made, to, how); });
        return {};
    } catch (const std::exception& failure) {
        return failure.what();
    }
}

}  // namespace sluice::app
