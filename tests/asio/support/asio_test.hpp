// SPDX-License-Identifier: Apache-2.0
// The fixture of the tests of the Boost.Asio adaptor. They run on each backend, like the conformance suite.
#pragma once

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>
#include <optional>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/asio.hpp"

namespace sluice::conformance {

namespace net = boost::asio;
using numbers = std::vector<unsigned>;

class asio_test : public conformance_test {
protected:
    // Uploads and downloads.
    static auto work(unsigned number) { return upload(numbers(200, number)).and_then(download); }
    static numbers combined(unsigned number) { return numbers(200, number); }

    // The handler, on the context. Needs no temporary in a coroutine.
    template <typename Handler>
    auto on_context(Handler handler) {
        return net::bind_executor(context, std::move(handler));
    }

    asio_test() { sync(work(0), pool); }

    single_stream pool{on};
    stream home = pool.next();
    net::io_context context;
};

#define ASIO_SUITE(name)              \
    class name : public asio_test {}; \
    INSTANTIATE_TEST_SUITE_P(, name, testing::ValuesIn(enrolled_backends()), backend_name)

// What a handler has received.
template <typename T>
struct received {
    int calls = 0;
    std::exception_ptr failure;
    std::optional<T> value;
    std::thread::id thread;

    auto handler() {
        return [this](std::exception_ptr what, T with) {
            ++calls;
            failure = std::move(what);
            value.emplace(std::move(with));
            thread = std::this_thread::get_id();
        };
    }
};

inline std::string text_of(const std::exception_ptr& failure) {
    return failure_of([&] {
        if (failure) std::rethrow_exception(failure);
    });
}

// Whether it is Asio's own error for a canceled wait.
inline bool is_aborted(const std::exception_ptr& failure) {
    try {
        if (failure) std::rethrow_exception(failure);
    } catch (const boost::system::system_error& which) {
        return which.code() == net::error::operation_aborted;
    } catch (...) {
        return false;
    }
    return false;
}

// The code of Sluice's error; none for any other exception.
inline std::error_code code_of(const std::exception_ptr& failure) {
    try {
        if (failure) std::rethrow_exception(failure);
    } catch (const error& which) {
        return which.code();
    } catch (...) {
    }
    return {};
}

}  // namespace sluice::conformance
