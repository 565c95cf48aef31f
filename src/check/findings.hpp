// SPDX-License-Identifier: Apache-2.0
// findings: what was found so far, each pair of places once, and the words for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check/event.hpp"
#include "check/shadow.hpp"
#include "sluice/check/check_trace.hpp"
#include "sluice/check/finding.hpp"

namespace sluice::check {

class findings {
public:
    explicit findings(const check_options& options) : options_(options) {}

    // The same name gives the same number. After a million names all others are one.
    std::uint32_t name(std::string_view text);
    void add_stack(std::uint64_t id, std::vector<std::string> frames);
    void name_stream(std::uint64_t id, std::uint64_t device, stream_kind kind);
    call_ref ref_of(const event& from, std::string_view name, bool is_host = false);

    // `memory` and `remedy` may be empty.
    void add(fault what, bool is_certain, const call_ref& first, const call_ref& second, std::string message,
             std::string memory, std::string remedy);
    const std::string& name_of(const call_ref& who) const { return names_[who.name]; }
    std::string words_of(const call_ref& who) const;  // "kernel scale on stream 3"
    std::string stream_of(const call_ref& who) const;

    place place_of(const call_ref& who) const;
    // Moves everything into the report.
    void finish(check_report& to);

private:
    bool is_suppressed(const finding& found) const;

    struct stack_pair {
        fault what;
        std::uint64_t first, second, names;
        auto operator<=>(const stack_pair&) const = default;
    };

    const check_options& options_;
    std::vector<std::string> names_{""};
    std::unordered_map<std::string, std::uint32_t> by_name_;
    std::unordered_map<std::uint64_t, std::vector<std::string>> stacks_;
    std::unordered_map<std::uint64_t, std::string> streams_;
    std::map<stack_pair, std::size_t> known_;  // index among found_; or left_out
    std::vector<finding> found_;
    static constexpr std::size_t most_frame_bytes = std::size_t{256} << 20;
    std::size_t frame_bytes_ = 0;  // of the stacks in found_
    std::uint64_t suppressed_ = 0, uncertain_ = 0, hints_ = 0;
};

// Whether the text matches one of the patterns of parse_suppressions().
bool matches(const std::vector<std::string>& suppressions, std::string_view kind, std::string_view text);

}  // namespace sluice::check
