// SPDX-License-Identifier: Apache-2.0
#include "check/findings.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "sluice/base/printable.hpp"

namespace sluice::check {
namespace {

constexpr std::size_t most_names = std::size_t{1} << 20;
constexpr std::size_t most_stacks = std::size_t{1} << 18;
constexpr std::size_t most_findings = 10'000;
constexpr std::size_t longest_name = 1024;
constexpr std::size_t left_out = ~std::size_t{0};

}  // namespace

std::string_view to_string(fault what) noexcept {
    switch (what) {
        case fault::race: return "race";
        case fault::early_read: return "early read";
        case fault::early_write: return "early write";
        case fault::use_after_free: return "use after free";
        case fault::reuse: return "reuse";
        case fault::wait_without_record: return "wait without record";
        case fault::event_recorded_again: return "event recorded again";
        case fault::outside_capture: return "outside capture";
        case fault::dropped_by_capture: return "dropped by capture";
        case fault::useless_wait: return "useless wait";
    }
    return "unknown fault";
}

std::uint32_t findings::name(std::string_view text) {
    const std::string kept(text.substr(0, longest_name));
    const auto at = by_name_.find(kept);
    if (at != by_name_.end()) return at->second;
    if (names_.size() == most_names) return 0;
    const auto number = static_cast<std::uint32_t>(names_.size());
    names_.push_back(kept);
    by_name_.emplace(kept, number);
    return number;
}

void findings::add_stack(std::uint64_t id, std::vector<std::string> frames) {
    if (stacks_.size() < most_stacks) stacks_[id] = std::move(frames);
}

void findings::name_stream(std::uint64_t id, std::uint64_t device, stream_kind kind) {
    const char* const how = kind == stream_kind::legacy         ? " (legacy default)"
                            : kind == stream_kind::non_blocking ? " (non-blocking)"
                                                                : "";
    if (streams_.size() < most_stacks || streams_.contains(id))
        streams_[id] = "stream " + std::to_string(id) + " of device " + std::to_string(device) + how;
}

call_ref findings::ref_of(const event& from, std::string_view what, bool is_host) {
    return {from.line, from.thread, from.stack, from.stream, name(what), is_host};
}

std::string findings::stream_of(const call_ref& who) const {
    if (who.is_host) return {};
    const auto at = streams_.find(who.stream);
    return at == streams_.end() ? "stream " + std::to_string(who.stream) : at->second;
}

std::string findings::words_of(const call_ref& who) const {
    return names_[who.name] + (who.is_host ? "" : " on stream " + std::to_string(who.stream));
}

place findings::place_of(const call_ref& who) const {
    if (who.line == 0) return {};
    const auto stack = stacks_.find(who.stack);
    return {names_[who.name], stream_of(who), who.line, who.thread,
            stack == stacks_.end() ? std::vector<std::string>() : stack->second};
}

bool findings::is_suppressed(const finding& found) const {
    for (const place* const each : {&found.first, &found.second}) {
        if (matches(options_.suppressions, to_string(found.what), each->what)) return true;
        if (matches(options_.suppressions, to_string(found.what), each->stream)) return true;
        for (const std::string& frame : each->frames)
            if (matches(options_.suppressions, to_string(found.what), frame)) return true;
    }
    return false;
}

void findings::add(fault what, bool is_certain, const call_ref& first, const call_ref& second, std::string message,
                   std::string memory, std::string remedy) {
    // Where the recorder took no stacks, the lines distinguish the places.
    const auto of = [](const call_ref& who) { return who.stack != 0 ? who.stack : who.line << 20; };
    const stack_pair key{what, of(first), of(second), (std::uint64_t{first.name} << 32) | second.name};
    if (const auto at = known_.find(key); at != known_.end()) {
        if (at->second != left_out) ++found_[at->second].times;
        return;
    }
    if (known_.size() == most_findings) return;
    std::size_t& index = known_[key] = left_out;
    finding made{
        what, is_certain, std::move(message), place_of(first), place_of(second), std::move(memory), std::move(remedy),
        1,    {}};
    if (is_suppressed(made)) {
        ++suppressed_;
    } else if (what == fault::useless_wait && !options_.hints) {
        ++hints_;
    } else if (!is_certain && !options_.may) {
        ++uncertain_;
    } else {
        for (place* const each : {&made.first, &made.second}) {
            for (const std::string& frame : each->frames) frame_bytes_ += frame.size() + sizeof(frame);
            if (frame_bytes_ > most_frame_bytes) each->frames.clear();  // a report of a hostile trace has an end
        }
        index = found_.size();
        found_.push_back(std::move(made));
    }
}

void findings::finish(check_report& to) {
    // What is known at the end only is found late.
    std::vector<std::size_t> order(found_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [this](std::size_t i) { return std::pair(found_[i].second.call, i); });
    to.findings.clear();
    for (const std::size_t i : order) to.findings.push_back(std::move(found_[i]));
    to.suppressed = suppressed_;
    to.uncertain = uncertain_;
    to.hints = hints_;
}

}  // namespace sluice::check
