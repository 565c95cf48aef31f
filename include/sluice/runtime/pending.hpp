// pending<T>: a host value that the device is still making, such as the result of a download. It cannot be
// read: only a wait (sync, co_await, host_call) opens it, once its ticket is complete.
//
// Move-only. Dropping it unopened is safe and never blocks.
#pragma once

#include <memory>
#include <utility>

#include "sluice/runtime/buffer.hpp"

namespace sluice {

namespace detail {
struct pending_access;
}

template <typename T>
class pending {
public:
    using value_type = T;

    // Made by operations: `make` turns what the device wrote into the value, once it is there.
    template <typename Make>
    static pending from(Make make) {
        return pending(std::make_unique<model<Make>>(std::move(make)));
    }

private:
    friend struct detail::pending_access;

    struct source {
        source() = default;
        source(const source&) = delete;  // owned through a pointer only
        source& operator=(const source&) = delete;
        virtual ~source() = default;
        virtual T make() = 0;
    };
    template <typename Make>
    struct model final : source {
        explicit model(Make f) : f_(std::move(f)) {}
        T make() override { return std::move(f_)(); }
        Make f_;
    };

    explicit pending(std::unique_ptr<source> from) : source_(std::move(from)) {}

    std::unique_ptr<source> source_;
};

namespace detail {
// The key to pending values, for code that has waited.
struct pending_access {
    template <typename T>
    static T open(pending<T>&& value) {
        return value.source_->make();
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
template <typename... Ts>
auto open(std::tuple<Ts...>&& values) {
    // Braces fix the order, so that an exception is always that of the first.
    return std::apply(
        [](Ts&... each) { return std::tuple<decltype(open(std::move(each)))...>{open(std::move(each))...}; }, values);
}
}  // namespace detail

}  // namespace sluice
