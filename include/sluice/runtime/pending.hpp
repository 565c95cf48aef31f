// SPDX-License-Identifier: Apache-2.0
// pending<T>: a host value that the device still computes, such as the result of a download. It cannot be read: only a
// wait (sync, co_await, host_call) opens it, once its ticket is complete.
//
// Move-only. Dropping it unopened is safe and never blocks.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/op/or_else.hpp"
#include "sluice/op/shared.hpp"
#include "sluice/runtime/buffer.hpp"
#include "sluice/runtime/detail/submission.hpp"

namespace sluice {

namespace detail {
struct pending_access;
}

template <typename T>
class pending {
public:
    using value_type = T;  // of the value

    // A value that is ready already. Costs one allocation and moves of the value.
    explicit pending(T ready) : pending(from([value = std::move(ready)]() mutable { return std::move(value); })) {}

    // For operations: once the device has written the data, `make` turns it into the value, on the thread that opens
    // it. `memory` is the storage, owned by make, whose history contains the write and its outcome; null only when
    // there is nothing to wait for. Costs one allocation and moves of `make`.
    template <typename Make>
    static pending from(Make make, storage* memory = nullptr) {
        return pending(std::make_unique<model<Make>>(std::move(make), memory));
    }

    // Creates the same kind of value from other memory, which another run has written: the output of a graph's launch.
    using maker = std::function<pending(const storage_ref&)>;

    // For commands that use the value in stream order: the storage to name as read; may be null. Throws
    // errc::invalid_argument when this was moved from. Costs O(1).
    storage* memory() const { return held().memory; }

private:
    friend struct detail::pending_access;

    struct source {
        explicit source(storage* made_into) : memory(made_into) {}
        source(const source&) = delete;  // owned through a pointer only
        source& operator=(const source&) = delete;
        virtual ~source() = default;
        virtual T make() = 0;
        virtual maker again() const { return {}; }

        storage* const memory;
        std::mutex mutex;  // for a shared pending value: the first thread that opens it creates the value
        std::shared_ptr<const T> made;
    };
    template <typename Make>
    struct model final : source {
        model(Make f, storage* made_into) : source(made_into), f_(std::move(f)) {}
        T make() override { return std::move(f_)(); }
        maker again() const override {
            if constexpr (std::is_constructible_v<Make, const storage_ref&, std::size_t>) {
                return [size = f_.size()](const storage_ref& there) { return from(Make(there, size), there.get()); };
            } else if constexpr (requires(const storage_ref& there) { f_.with_memory(there); }) {
                // Without this run's memory, which is then free.
                return [blank = f_.with_memory({})](const storage_ref& there) {
                    return from(blank.with_memory(there), there.get());
                };
            } else {
                return {};
            }
        }
        Make f_;
    };

    explicit pending(std::unique_ptr<source> from) : source_(std::move(from)) {}

    source& held() const {
        if (source_ == nullptr) detail::refuse_moved_value("a pending value");
        return *source_;
    }

    std::unique_ptr<source> source_;
};

namespace detail {
template <typename T>
inline constexpr bool can_replace<pending<T>, T> = true;

// Whether the type contains a pending value.
template <typename T>
inline constexpr bool has_pending = false;
template <typename T>
inline constexpr bool has_pending<pending<T>> = true;
template <typename T>
inline constexpr bool has_pending<shared<pending<T>>> = true;
template <typename... Ts>
inline constexpr bool has_pending<std::tuple<Ts...>> = (has_pending<Ts> || ...);
template <typename T>
inline constexpr bool has_pending<std::vector<T>> = has_pending<T>;

// The storage of each pending value in an output, which must be written before the output is opened.
struct pending_storage {
    template <typename T, typename Function>
    static void for_each(const T&, Function&&) {}
    template <typename T, typename Function>
    static void for_each(const pending<T>& value, Function&& f) {
        if (storage* const memory = value.memory()) f(*memory);
    }
    template <typename T, typename Function>
    static void for_each(const shared<pending<T>>& value, Function&& f) {
        for_each(*value, f);
    }
    template <typename... Ts, typename Function>
    static void for_each(const std::tuple<Ts...>& values, Function&& f) {
        std::apply([&](const Ts&... each) { (for_each(each, f), ...); }, values);
    }
    template <typename T, typename Function>
    requires has_pending<T>
    static void for_each(const std::vector<T>& values, Function&& f) {
        for (const T& each : values) for_each(each, f);
    }
};

// A waiter of the submission then also waits for the pending values in its output and receives their failures: the
// values may come from other operations.
template <typename Output>
void reach_pending(submission& in, const Output& output) {
    pending_storage::for_each(output, [&in](const storage& data) { in.reach(data); });
}

// Opens pending values, for code that has waited.
struct pending_access {
    // Leaves nothing in it: a future that has returned its value holds no memory, so a graph's next launch can use it.
    template <typename T>
    static T open(pending<T>&& value) {
        value.held();
        const auto source = std::move(value.source_);
        return source->make();
    }
    // Empty for a value that cannot be created from other memory.
    template <typename T>
    static auto again(const pending<T>& value) {
        return value.held().again();
    }
    template <typename T>
    static shared<T> open(const shared<pending<T>>& value) {
        auto& source = value->held();
        // Created in its final place: if it were lost on the way, the next thread that opens it would get an empty
        // rest.
        struct made {
            explicit made(typename pending<T>::source& from) : value(from.make()) {}
            const T value;
        };
        const std::lock_guard lock(source.mutex);
        if (!source.made) {
            const auto there = std::make_shared<made>(source);
            source.made = std::shared_ptr<const T>(there, &there->value);
        }
        return shared<T>(source.made);
    }
};

template <typename T>
T open(T&& value) {
    return std::forward<T>(value);
}
template <typename T>
T open(pending<T>&& value) {
    return pending_access::open(std::move(value));
}
template <typename T>
shared<T> open(shared<pending<T>>&& value) {
    return pending_access::open(value);
}
template <typename T>
requires has_pending<T>
auto open(std::vector<T>&& values);
template <typename... Ts>
auto open(std::tuple<Ts...>&& values) {
    // Braces fix the order of evaluation, so that the exception is always that of the first failed value.
    return std::apply(
        [](Ts&... each) { return std::tuple<decltype(open(std::move(each)))...>{open(std::move(each))...}; }, values);
}
template <typename T>
requires has_pending<T>
auto open(std::vector<T>&& values) {
    std::vector<decltype(open(std::declval<T>()))> opened;
    opened.reserve(values.size());
    for (T& each : values) opened.push_back(open(std::move(each)));
    return opened;
}
}  // namespace detail

}  // namespace sluice
