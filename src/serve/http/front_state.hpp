// SPDX-License-Identifier: Apache-2.0
// What the loops of one front end share.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "serve/connection_limits.hpp"
#include "serve/front_clients.hpp"
#include "serve/served_hosts.hpp"
#include "serve/tls/certificate_watch.hpp"
#include "sluice/serve/http_front.hpp"
#include "sluice/serve/span_file.hpp"

namespace sluice::serve {

struct front_state {
    front_state(server& its_models, const http_options& its_options, log_sink its_log)
        : models(its_models),
          options(its_options),
          log(std::move(its_log)),
          hosts(options.address, options.host_names),
          limits(options.connections, options.connections_of_client, options.trusted_proxies),
          budget(budget_of_front(options.budget, options.clients.get(), options.all_bodies_bytes)) {}

    server& models;
    const http_options options;
    const log_sink log;
    const served_hosts hosts;
    connection_limits limits;
    const std::shared_ptr<request_budget> budget;
    boost::asio::thread_pool loading{1};  // loads models, one after the other: that takes long
    boost::asio::thread_pool drawing{1};  // draws timelines and lists models, which takes longer than many requests
    std::atomic<bool> is_draining{false};
    std::array<std::atomic<std::uint64_t>, 600> replies{};  // by status
    std::atomic<std::uint64_t> wrong_traceparents{0};
    std::atomic<std::uint64_t> failed_handshakes{0};
    std::shared_ptr<span_file> spans;                 // where they are asked for
    std::unique_ptr<certificate_watch> certificates;  // where TLS is spoken
};

}  // namespace sluice::serve
