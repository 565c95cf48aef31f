// SPDX-License-Identifier: Apache-2.0
// Adaptor for Boost.Asio: device work as an asynchronous operation, with any completion token.
//
//     boost::asio::awaitable<void> answer(round_robin& pool) {
//         auto future = spawn(forward(x), pool);
//         std::vector<float> y = co_await async_wait(std::move(future), boost::asio::use_awaitable);
//     }
//     async_run(forward(x), pool, boost::asio::bind_executor(strand, [](std::exception_ptr e, std::vector<float> y)
//     {}));
//
// Optional: no other header includes it, and the library needs no Boost. This header needs Boost 1.81 or later. Include
// it in .cpp files only: nvcc cannot compile Asio's coroutines. See docs/asio.md.
#pragma once

#include "sluice/asio/async_run.hpp"
#include "sluice/asio/async_wait.hpp"
