// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <sluice/asio.hpp>
#include <sluice/sluice.hpp>

int main() {
    sluice::runtime machine;
    sluice::single_stream pool(machine.default_device());
    boost::asio::io_context context;
    int got = 0;
    auto note = [&](std::exception_ptr, int value) { got = value; };
    sluice::async_run(sluice::host_call([] { return 42; }), pool, boost::asio::bind_executor(context, note));
    context.run();
    return got == 42 ? 0 : 1;
}
