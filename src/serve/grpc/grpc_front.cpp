// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/grpc_front.hpp"

#include <grpc/grpc.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "serve/front_clients.hpp"
#include "serve/grpc/call_loop.hpp"
#include "serve/grpc/compressed_message.hpp"
#include "serve/grpc/health.hpp"
#include "serve/grpc/listener.hpp"
#include "serve/grpc/service.hpp"
#include "serve/grpc/status.hpp"
#include "serve/spin_time.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve {
namespace {

constexpr std::chrono::milliseconds poll_time{5};
constexpr std::chrono::milliseconds certificate_look_time{1000};  // for changed certificates
constexpr std::chrono::milliseconds ping_time{60'000};            // a client that has vanished is noticed
constexpr std::chrono::hours longest_write_time{24};
constexpr std::size_t most_threads = 256;
constexpr std::chrono::milliseconds stream_time{500};  // for the last words of streams
constexpr int most_calls = 256;                        // of one connection; a client's next ones wait with it
// gRPC's memory for messages that are not there as a whole is as large as that for requests, but at least this.
constexpr std::size_t least_buffer_bytes = 64 << 20;

grpc_options checked(grpc_options options) {
    if (options.write_time < std::chrono::milliseconds(1) || options.write_time > longest_write_time) {
        throw error(errc::invalid_argument, "an answer over gRPC cannot have " +
                                                std::to_string(options.write_time.count()) +
                                                " ms to be taken; accepted is 1 ms to 24 hours");
    }
    options.budget = budget_of_front(options.budget, options.clients.get(), std::size_t{1} << 30);
    if (options.threads == 0 || options.threads > most_threads) {
        throw error(errc::invalid_argument, "gRPC cannot have " + std::to_string(options.threads) +
                                                " threads; accepted is 1 to " + std::to_string(most_threads));
    }
    require_spin_time(options.spin_time);
    return options;
}

}  // namespace

class grpc_front::implementation {
public:
    implementation(server& models, const grpc_options& options, log_sink log)
        : state_(std::make_shared<grpc_state>(models, checked(options), std::move(log))),
          service_(state_),
          listener_(options.address, options.port, options.shares_port) {
        auto limits = std::make_unique<connection_limits>(options.connections, options.connections_of_client,
                                                          options.trusted_proxies);
        if (options.tls.is_wanted())
            certificates_ = std::make_shared<certificate_watch>(options.tls, state_->log, protocol_of_tls::http_2);
        credentials_ = grpc::InsecureServerCredentials();  // the relays speak TLS
        grpc::ServerBuilder builder;
        using external = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
        auto acceptor = builder.experimental().AddExternalConnectionAcceptor(external::FROM_FD, credentials_);
        builder.SetMaxReceiveMessageSize(
            static_cast<int>(std::min<std::size_t>(options.message_bytes, std::numeric_limits<int>::max())));
        builder.SetMaxSendMessageSize(-1);
        accept_compressed(builder);
        builder.SetResourceQuota(
            grpc::ResourceQuota("sluice").Resize(std::max(state_->options.budget->most_bytes(), least_buffer_bytes)));
        builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, most_calls);
        builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                                   static_cast<int>(options.handshake_time.count()));
        builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(ping_time.count()));
        // Also where a connection has no calls: a client that has vanished is found.
        builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
        builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit
        builder.RegisterService(&service_.service());
        for (std::size_t i = 0; i < options.threads; ++i)
            loops_.push_back(
                std::make_unique<call_loop>(builder.AddCompletionQueue(), state_->answers, options.spin_time));
        {
            const health_updates::enabled with_health;
            server_ = builder.BuildAndStart();
        }
        if (!server_) throw error(errc::io_failed, "gRPC's server does not start");
        // The names of models are for those who have a token; the service asks for none.
        if (server_->GetHealthCheckService() != nullptr)
            health_.emplace(models, *server_->GetHealthCheckService(), options.clients == nullptr);
        for (const auto& each : loops_) {
            service_.ask_for_calls(*each);
            each->start();
        }
        listener_.start(
            std::move(acceptor), options.threads,
            {.budget = state_->options.budget, .certificates = certificates_, .handshake_time = options.handshake_time},
            std::move(limits));
        if (certificates_) looking_ = std::jthread([this](const std::stop_token& end) { look_for_certificates(end); });
    }
    implementation(const implementation&) = delete;
    implementation& operator=(const implementation&) = delete;
    ~implementation() {
        drain(std::chrono::milliseconds(0));
        if (ending_.joinable()) ending_.join();
        for (const auto& each : loops_) each->end();
        state_->answers.stop();
    }

    unsigned short port() const noexcept { return listener_.port(); }

    std::size_t drain(std::chrono::milliseconds at_most) {
        if (std::exchange(has_drained_, true)) return 0;
        state_->models.begin_drain();
        health_.reset();
        service_.end_streams();
        const auto limit = std::chrono::system_clock::now() + at_most;
        // Until the last answer the service refuses new calls itself (UNAVAILABLE: try another server).
        while (state_->in_flight != 0 && std::chrono::system_clock::now() < limit)
            std::this_thread::sleep_for(poll_time);
        const std::size_t cut = state_->in_flight;
        const auto end_of_streams = std::min(limit, std::chrono::system_clock::now() + stream_time);
        while (service_.has_streams() && std::chrono::system_clock::now() < end_of_streams)
            std::this_thread::sleep_for(poll_time);
        // Once it ends, gRPC answers calls that arrive with CANCELLED, which no client takes for "try another server".
        // So the connections end before that. Shutdown returns when the last call is answered: where a model does not
        // end, never.
        ending_ = std::thread([this] {
            listener_.stop();
            listener_.end_connections();
            server_->Shutdown(std::chrono::system_clock::now());
        });
        if (cut == 0) ending_.join();
        return cut;
    }

    std::string metrics() const {
        std::string text =
            "# HELP sluice_grpc_replies_total Answers over gRPC by their status; of streams, each answer.\n"
            "# TYPE sluice_grpc_replies_total counter\n";
        for (std::size_t code = 0; code < grpc_state::codes; ++code) {
            if (const std::uint64_t count = state_->replies[code]) {
                text += "sluice_grpc_replies_total{code=\"" + name_of(static_cast<grpc::StatusCode>(code)) + "\"} " +
                        std::to_string(count) + "\n";
            }
        }
        const auto add = [&text](const std::string& name, const char* kind, const char* help, std::uint64_t value) {
            text += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n" + name + " " +
                    std::to_string(value) + "\n";
        };
        add("sluice_grpc_unanswered_requests", "gauge", "Requests over gRPC that are not answered, and loads.",
            state_->in_flight);
        add("sluice_grpc_untaken_answers_total", "counter", "Calls that were ended because an answer was not taken.",
            state_->answers.count());
        add("sluice_grpc_wrong_traceparents_total", "counter", "Calls whose metadata traceparent was ignored.",
            state_->wrong_traceparents);
        add("sluice_grpc_connections", "gauge", "Connections of gRPC.", listener_.connections());
        add("sluice_grpc_refused_connections_total", "counter", "Connections above a limit.", listener_.refused());
        add("sluice_grpc_abusive_connections_total", "counter",
            "Connections that were ended for the streams and frames that they sent.", listener_.abusers());
        return text;
    }

private:
    void look_for_certificates(const std::stop_token& end) {
        std::mutex mutex;
        std::condition_variable_any wakes;
        std::unique_lock lock(mutex);
        while (!wakes.wait_for(lock, end, certificate_look_time, [&end] { return end.stop_requested(); }))
            certificates_->look();
    }

    const std::shared_ptr<grpc_state> state_;
    inference_service service_;
    std::shared_ptr<certificate_watch> certificates_;
    std::shared_ptr<grpc::ServerCredentials> credentials_;  // before the server, which uses them
    std::vector<std::unique_ptr<call_loop>> loops_;
    std::unique_ptr<grpc::Server> server_;
    grpc_listener listener_;                // hands connections to the server
    std::optional<health_updates> health_;  // before the server ends
    std::thread ending_;
    std::jthread looking_;
    bool has_drained_ = false;
};

bool grpc_supported() noexcept { return true; }
std::string why_no_grpc() { return {}; }

grpc_front::grpc_front(server& models, const grpc_options& options, log_sink log)
    : made_(std::make_unique<implementation>(models, options, std::move(log))) {}
grpc_front::~grpc_front() = default;
unsigned short grpc_front::port() const noexcept { return made_->port(); }
std::string grpc_front::metrics() const { return made_->metrics(); }
std::size_t grpc_front::drain(std::chrono::milliseconds at_most) { return made_->drain(at_most); }

}  // namespace sluice::serve
