// SPDX-License-Identifier: Apache-2.0
#include "nn/kept_calls.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "nn/landed_outputs.hpp"
#include "nn/prepared_network.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/kept_limit.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

using sluice::detail::spin_guard;

// A network whose inputs have ever other shapes must not fill the memory with what it will not use again.
constexpr std::size_t most_seen = 64;
// Of as many that cannot be prepared no further one is tried: each try takes as long as a preparation.
constexpr std::size_t most_refused = 8;

// The caller waits before the numbers may change.
any_tensor uploaded(execution_context& context, const input_view& from) {
    const std::size_t bytes = from.form().size_bytes();
    const command_info info{"upload"};
    storage_ref to = context.stream().allocate(std::max<std::size_t>(bytes, 1), info);
    if (bytes != 0) sluice::detail::upload_bytes(context.stream(), *to, from.data(), bytes, {}, info.location);
    return any_tensor(from.form().type(), lengths_of(from.form()), std::move(to));
}

// FNV-1a, for words instead of bytes.
class key_of_words {
public:
    explicit key_of_words(std::uint64_t offset = 0xcbf29ce484222325) : key_(offset) {}
    void add(std::uint64_t word) noexcept {
        key_ = (key_ ^ word) * 0x100000001b3;
        key_ ^= key_ >> 32;
    }
    std::uint64_t operator()() const noexcept { return key_ == 0 ? 1 : key_; }

private:
    std::uint64_t key_;
};

}  // namespace

kept_calls::kept_calls(const prepared_network& of) : of_(of), most_bytes_(kept_limit::current()) {}
kept_calls::~kept_calls() = default;

std::uint64_t kept_calls::key_of(std::span<const input_view> inputs) noexcept {
    key_of_words key;
    for (const input_view& each : inputs) {
        key.add(static_cast<std::uint64_t>(each.form().type()));
        key.add(each.form().shape().size());
        for (const std::size_t length : each.form().shape()) key.add(length);
    }
    return key();
}

std::uint64_t kept_calls::key_for(std::span<const input_view> inputs) const noexcept {
    key_of_words key{key_of(inputs)};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::size_t bytes = inputs[i].form().size_bytes();
        if (!has_few_that_decide(of_, i, inputs[i].form())) continue;
        for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, inputs[i].data() + at, std::min(sizeof(word), bytes - at));
            key.add(word);
        }
    }
    return key();
}

// Threads get the numbers 0, 1, 2 ...; the first eight of them have eight places each.
std::size_t kept_calls::first_of_thread() noexcept {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t number = threads.fetch_add(1, std::memory_order_relaxed);
    constexpr std::size_t groups = most / places_of_thread;
    return number % groups * places_of_thread + number / groups % places_of_thread;
}

bool kept_calls::take_if_fits(place& from, std::uint64_t key, std::span<const input_view> inputs) noexcept {
    if (from.key.load(std::memory_order_relaxed) != key || from.is_taken.load(std::memory_order_relaxed)) return false;
    if (!take(from)) return false;
    if (from.key.load(std::memory_order_relaxed) == key && from.what->fits(inputs)) {
        note_use(from);
        return true;
    }
    leave(from);
    return false;
}

// Writes only after a call was added.
void kept_calls::note_use(place& of) noexcept {
    const std::uint64_t now = added_.load(std::memory_order_relaxed);
    if (of.used_at.load(std::memory_order_relaxed) != now) of.used_at.store(now, std::memory_order_relaxed);
}

kept_calls::use kept_calls::find(std::span<const input_view> inputs) noexcept {
    const std::uint64_t key = key_for(inputs);
    const std::size_t first = first_of_thread();
    for (std::size_t i = 0; i < most; ++i) {
        place& each = places_[(first + i) % most];
        if (take_if_fits(each, key, inputs)) return use(i < places_of_thread ? each : brought_to(first, each));
    }
    return {};
}

bool kept_calls::has(std::span<const input_view> inputs) const noexcept {
    const std::uint64_t key = key_for(inputs);
    for (const place& each : places_)
        if (each.key.load(std::memory_order_relaxed) == key) return true;
    return false;
}

// Moves the call of a place that this thread has taken to an empty one near `first`, if there is one.
kept_calls::place& kept_calls::brought_to(std::size_t first, place& from) noexcept {
    for (std::size_t i = 0; i < places_of_thread; ++i) {
        place& to = places_[(first + i) % most];
        if (to.key.load(std::memory_order_relaxed) != 0 || !take(to)) continue;
        if (to.what != nullptr) {
            leave(to);
            continue;
        }
        to.what = std::move(from.what);
        note_use(to);
        to.key.store(from.key.load(std::memory_order_relaxed), std::memory_order_relaxed);
        from.key.store(0, std::memory_order_relaxed);
        leave(from);
        return to;
    }
    return from;
}

// It is taken for the caller.
kept_calls::place* kept_calls::empty_place(std::size_t first) noexcept {
    for (std::size_t i = 0; i < most; ++i) {
        place& each = places_[(first + i) % most];
        if (each.key.load(std::memory_order_relaxed) != 0 || !take(each)) continue;
        if (each.what == nullptr) return &each;
        leave(each);
    }
    return nullptr;
}

// The same, with the call that it has: the one that was used longest ago of those that no thread uses. None for these
// inputs (0: any). Only that place is taken: a thread whose call is taken while it looks would compile another one.
kept_calls::place* kept_calls::longest_unused(std::uint64_t key_to_spare) noexcept {
    for (std::size_t tries = 0; tries < most; ++tries) {
        place* found = nullptr;
        for (place& each : places_) {
            const std::uint64_t key = each.key.load(std::memory_order_relaxed);
            if (key == 0 || key == key_to_spare || each.is_taken.load(std::memory_order_relaxed)) continue;
            if (found == nullptr ||
                each.used_at.load(std::memory_order_relaxed) < found->used_at.load(std::memory_order_relaxed))
                found = &each;
        }
        if (found == nullptr) return nullptr;
        if (!take(*found)) continue;
        const std::uint64_t key = found->key.load(std::memory_order_relaxed);
        if (found->what != nullptr && key != 0 && key != key_to_spare) return found;
        leave(*found);
    }
    return nullptr;
}

// Of a place that this thread has taken. It is empty then, and still taken.
std::unique_ptr<prepared_call> kept_calls::taken_out(place& from) noexcept {
    from.key.store(0, std::memory_order_relaxed);
    if (from.what != nullptr) all_bytes_.fetch_sub(from.what->bytes(), std::memory_order_relaxed);
    return std::move(from.what);
}

void kept_calls::forget() noexcept {
    for (place& each : places_) {
        std::unique_ptr<prepared_call> dropped;  // destroyed without the lock
        const std::lock_guard lock(adding_);
        if (each.key.load(std::memory_order_relaxed) == 0 || !take(each)) continue;
        dropped = taken_out(each);
        leave(each);
    }
}

kept_calls::use kept_calls::add(std::unique_ptr<prepared_call> made, std::span<const input_view> inputs) {
    std::vector<std::unique_ptr<prepared_call>> dropped;  // destroyed without the lock
    dropped.reserve(most + 1);
    const std::uint64_t key = key_for(inputs);
    const std::lock_guard lock(adding_);
    added_.fetch_add(1, std::memory_order_relaxed);
    while (bytes() + made->bytes() > most_bytes_) {
        place* const oldest = longest_unused(key);
        if (oldest == nullptr) break;
        dropped.push_back(taken_out(*oldest));
        leave(*oldest);
    }
    place* to = empty_place(first_of_thread());
    if (to == nullptr) to = longest_unused(0);
    if (to == nullptr) return {};
    dropped.push_back(taken_out(*to));
    to->what = std::move(made);
    all_bytes_.fetch_add(to->what->bytes(), std::memory_order_relaxed);
    note_use(*to);
    to->key.store(key, std::memory_order_relaxed);
    return use(*to);
}

bool kept_calls::is_repeated(std::span<const input_view> inputs) {
    const std::uint64_t key = key_for(inputs);
    const spin_guard lock(guard_);
    if (std::ranges::find(refused_, key) != refused_.end() || refused_.size() >= most_refused) return false;
    if (has(inputs) || std::ranges::find(seen_, key) != seen_.end()) return true;
    if (seen_.size() == most_seen) seen_.erase(seen_.begin());
    seen_.push_back(key);
    return false;
}

kept_calls::use kept_calls::prepare(std::span<const input_view> inputs) {
    std::unique_ptr<prepared_call> made;
    try {
        made = std::make_unique<prepared_call>(of_, prepared_inputs(of_, inputs));
    } catch (const error& refusal) {
        if (refusal.code() != errc::graph_refused) throw;
        const spin_guard lock(guard_);
        const std::uint64_t key = key_for(inputs);
        if (std::ranges::find(refused_, key) == refused_.end()) refused_.push_back(key);
        std::erase(seen_, key);
        return {};
    }
    {
        const spin_guard lock(guard_);
        std::erase(seen_, key_for(inputs));
    }
    return add(std::move(made), inputs);
}

// As an operation, for shapes that may not come again. Its inputs are on the device where the network lets them be, as
// they are for a compiled network: what is wrong with them is found in the same place.
landed_outputs kept_calls::call_once(std::span<const input_view> inputs) const {
    const stream_lease on(of_.on());
    landed_outputs landed;
    auto submitted = with_context([&](execution_context& context) {
        std::vector<any_tensor> given;
        for (const input_view& each : inputs) {
            const bool is_for_host = given.size() < of_.from().body.inputs.size() && of_.is_host_input(given.size());
            given.push_back(is_for_host ? host_copy(each) : uploaded(context, each));
        }
        landed = submit_run(of_, context, std::move(given));
    });
    sync_on(std::move(submitted), *on);
    return landed;
}

kept_calls::use kept_calls::use_for(std::span<const input_view> inputs) {
    kept_calls::use found = find(inputs);
    if (found) return found;
    sluice::detail::require_may_wait(of_.on(), "network");
    if (inputs.size() != of_.from().body.inputs.size()) return {};  // the run refuses them
    return is_repeated(inputs) && why_not_prepared(of_, prepared_inputs(of_, inputs)).empty() ? prepare(inputs) : use();
}

template <typename Require, typename Deliver>
auto kept_calls::answer(std::span<const input_view> inputs, std::span<const output_view> to, const Require& require,
                        const Deliver& deliver) {
    of_.on().throw_if_refusing();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].data() == nullptr && inputs[i].form().size_bytes() != 0)
            throw error(errc::invalid_argument,
                        of_.from().path.string() + ": the view of input " + std::to_string(i) + " has no memory");
    }
    const kept_calls::use one = use_for(inputs);
    if (!one) {
        const landed_outputs landed = call_once(inputs);
        require(landed);
        return deliver(landed, false);
    }
    require((*one).outputs());
    const bool is_written = (*one).run(inputs, to);
    return deliver((*one).outputs(), is_written);
}

void kept_calls::operator()(std::span<const input_view> inputs, std::span<const output_view> outputs) {
    answer(
        inputs, outputs,
        [&](const landed_outputs& landed) { landed.require_fitting(of_.from().body.outputs, outputs); },
        [&](const landed_outputs& landed, bool is_written) {
            if (!is_written) landed.copy_to(outputs);
        });
}

std::vector<any_tensor> kept_calls::operator()(std::span<const input_view> inputs) {
    return answer(
        inputs, {}, [](const landed_outputs&) {}, [](const landed_outputs& landed, bool) { return landed(); });
}

}  // namespace sluice::nn::detail
