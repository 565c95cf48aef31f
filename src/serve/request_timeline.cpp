// SPDX-License-Identifier: Apache-2.0
// A ring of slots. A slot's state is 0 before its first record, 2 * (n + 1) when it has record n, and one less while
// that is written. The record lies in it as words that are atomic themselves: a reader that finds the same even state
// before and after its words has a whole record. The words are read with acquire and written with release, so neither
// moves past the state; a fence would do the same, but the thread sanitizer does not know fences.
#include "sluice/serve/request_timeline.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace sluice::serve {
namespace {

constexpr std::size_t words = (sizeof(request_record) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
static_assert(std::is_trivially_copyable_v<request_record>);

using word_array = std::array<std::uint64_t, words>;

}  // namespace

struct alignas(64) request_timeline::slot {
    std::atomic<std::uint64_t> state{0};
    std::array<std::atomic<std::uint64_t>, words> record{};
};

request_timeline::request_timeline() : slots_(std::make_unique<slot[]>(most)) {}
request_timeline::~request_timeline() = default;

void request_timeline::add(const request_record& what) noexcept {
    const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    slot& its = slots_[number % most];
    const std::uint64_t done = 2 * (number + 1);
    std::uint64_t before = its.state.load(std::memory_order_relaxed);
    const bool is_free = before % 2 == 0 && before < done;
    if (!is_free || !its.state.compare_exchange_strong(before, done - 1, std::memory_order_acq_rel)) {
        skipped_.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    word_array text{};
    std::memcpy(text.data(), &what, sizeof(what));
    for (std::size_t i = 0; i < words; ++i) its.record[i].store(text[i], std::memory_order_release);
    its.state.store(done, std::memory_order_release);
}

std::vector<request_record> request_timeline::last() const {
    std::vector<std::pair<std::uint64_t, request_record>> found;
    found.reserve(most);
    for (std::size_t at = 0; at < most; ++at) {
        const slot& its = slots_[at];
        const std::uint64_t before = its.state.load(std::memory_order_acquire);
        if (before == 0 || before % 2 != 0) continue;
        word_array text;
        for (std::size_t i = 0; i < words; ++i) text[i] = its.record[i].load(std::memory_order_acquire);
        if (its.state.load(std::memory_order_relaxed) != before) continue;
        request_record& record = found.emplace_back(before, request_record{}).second;
        std::memcpy(static_cast<void*>(&record), text.data(), sizeof(record));
    }
    std::ranges::sort(found, {}, [](const auto& each) { return each.first; });
    std::vector<request_record> in_order;
    in_order.reserve(found.size());
    for (const auto& each : found) in_order.push_back(each.second);
    return in_order;
}

}  // namespace sluice::serve
