// SPDX-License-Identifier: Apache-2.0
#include "check/other_orders.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "check/checker.hpp"
#include "check/thread_orders.hpp"

namespace sluice::check {
namespace {

std::size_t bytes_of(const event& what) {
    std::size_t bytes = what.name.size() + what.args.size() * sizeof(argument) + what.after.size() * 8;
    for (const std::string& each : what.frames) bytes += each.size() + sizeof(each);
    return bytes;
}

// The same place in the program: by its stack, or by its line where there is none.
std::string key_of(const place& of) {
    std::string key = of.what;
    if (of.frames.empty()) key += "@" + std::to_string(of.call);
    for (const std::string& each : of.frames) key += "@" + each;
    return key;
}

// In another order the later of two places may come first, and its fault may have another name.
std::string key_of(const finding& of) {
    const std::string one = key_of(of.first), other = key_of(of.second);
    return std::min(one, other) + "|" + std::max(one, other);
}

}  // namespace

void other_orders::keep(const event& what) {
    if (options_.orders == 0 || is_too_long_) return;
    bytes_ += bytes_of(what);
    is_too_long_ = calls_.size() == most_calls || bytes_ > most_bytes;
    is_too_long_ ? std::vector<event>().swap(calls_) : calls_.push_back(what);
}

void other_orders::check(check_report& to) const {
    if (options_.orders == 0) return;
    if (is_too_long_) return to.unseen.push_back("other orders of the calls of host threads: there are too many calls");
    const thread_orders orders(calls_);
    if (orders.threads() < 2) return;
    if (orders.threads() > thread_orders::most_threads)
        return to.unseen.push_back("other orders of the calls of host threads: there are too many threads");
    std::set<std::string> known;
    for (const finding& each : to.findings) known.insert(key_of(each));
    for (std::size_t i = 0; i < options_.orders; ++i) {
        checker checks(options_);
        try {
            for (const std::uint32_t at : orders.order(i)) {
                event each = calls_[at];
                checks.take(each);
            }
        } catch (const trace_refusal&) {
            continue;  // no program can make its calls in this order
        }
        ++to.orders;
        check_report found;
        checks.finish(found);
        for (finding& each : found.findings) {
            if (each.what == fault::useless_wait || !known.insert(key_of(each)).second) continue;
            each.is_certain = false;
            each.message += ", where the threads of the host make their calls in another order";
            to.findings.push_back(std::move(each));
        }
    }
}

}  // namespace sluice::check
