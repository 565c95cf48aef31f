// pending<T>: a host value that the device is still making, such as the result of a download. It cannot be
// read: only a wait (sync, co_await, host_call) opens it, once its ticket is complete.
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

#include "sluice/op/shared.hpp"
#include "sluice/runtime/buffer.hpp"
#include "sluice/runtime/submission.hpp"

namespace sluice {

namespace detail {
struct pending_access;
}

template <typename T>
class pending {
public:
    using value_type = T;

    // One that is there already.
    explicit pending(T ready) : pending(from([value = std::move(ready)]() mutable { return std::move(value); })) {}

    // Made by operations: `make` turns what the device wrote into the value, once it is there, on the thread that opens
    // it. `memory` is the storage, owned by make, whose history tells when that is, and whether it went well; null only
    // when there is nothing to wait for.
    template <typename Make>
    static pending from(Make make, storage* memory = nullptr) {
        return pending(std::make_unique<model<Make>>(std::move(make), memory));
    }

    // Makes the same value of other memory that something like it was written to; what a graph's launches give.
    using maker = std::function<pending(const storage_ref&)>;

    // For commands that use the value in stream order: the storage to name as read, and perhaps null.
    storage* memory() const noexcept { return source_->memory; }

private:
    friend struct detail::pending_access;

    struct source {
        explicit source(storage* where) : memory(where) {}
        source(const source&) = delete;  // owned through a pointer only
        source& operator=(const source&) = delete;
        virtual ~source() = default;
        virtual T make() = 0;
        virtual maker again() const { return {}; }

        storage* const memory;
        std::mutex mutex;  // of a shared pending value: who opens it first makes it
        std::shared_ptr<const T> made;
    };
    template <typename Make>
    struct model final : source {
        model(Make f, storage* where) : source(where), f_(std::move(f)) {}
        T make() override { return std::move(f_)(); }
        maker again() const override {
            if constexpr (std::is_constructible_v<Make, const storage_ref&, std::size_t>) {
                return [size = f_.size()](const storage_ref& there) { return from(Make(there, size), there.get()); };
            } else {
                return {};
            }
        }
        Make f_;
    };

    explicit pending(std::unique_ptr<source> from) : source_(std::move(from)) {}

    std::unique_ptr<source> source_;
};

namespace detail {
// Whether something waits to be opened in it.
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

// The storage of each pending value in an output: what must be written before it is opened.
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

// Who waits for the submission waits for the pending values in its output too, and is told what they hang on: they may
// have been carried there from other operations.
template <typename Output>
void reach_pending(submission& in, const Output& output) {
    pending_storage::for_each(output, [&in](const storage& data) { in.reach(data); });
}

// The key to pending values, for code that has waited.
struct pending_access {
    // Nothing is left in it: a future that has given its value holds no memory, which a graph's next launch can use.
    template <typename T>
    static T open(pending<T>&& value) {
        const auto source = std::move(value.source_);
        return source->make();
    }
    // Empty for a value that cannot be made again.
    template <typename T>
    static auto again(const pending<T>& value) {
        return value.source_->again();
    }
    template <typename T>
    static shared<T> open(const shared<pending<T>>& value) {
        auto& source = *value->source_;
        const std::lock_guard lock(source.mutex);
        if (!source.made) source.made = std::make_shared<const T>(source.make());
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
    // Braces fix the order, so that an exception is always that of the first.
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
