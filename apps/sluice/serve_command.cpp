// SPDX-License-Identifier: Apache-2.0
#include "serve_command.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <optional>
#include <ostream>
#include <set>
#include <thread>
#include <utility>

#include "exit_status.hpp"
#include "network_file.hpp"
#include "process_guard.hpp"
#include "process_user.hpp"
#include "serve_log.hpp"
#include "sluice/base/error.hpp"
#include "sluice/serve/compute_nice.hpp"
#include "sluice/serve/grpc_front.hpp"
#include "sluice/serve/network_engine.hpp"
#include "sluice/serve/quiet_watch.hpp"
#include "sluice/serve/repository_watch.hpp"
#include "sluice/serve/server.hpp"
#include "sluice/serve/worker_engine.hpp"
#include "token_watch.hpp"

namespace sluice::app {
namespace {

constexpr std::chrono::milliseconds poll_time{20};
constexpr int looks_rest = 500;  // as long as a look for lost devices takes, before the next one
constexpr std::chrono::milliseconds longest_rest{1000};
constexpr std::chrono::milliseconds longest_load_at_end{1000};  // that the watch of the repository has begun

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

serve::model_source source_of(const serve_options& options) {
    return options.models.empty() ? serve::model_source::repository(options.repository, options.follows_links)
                                  : serve::model_source::files(options.models);
}

std::string authority_of(const std::string& address, unsigned short port) {
    const bool is_v6 = address.find(':') != std::string::npos;
    return (is_v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

std::string url_of(const serve::http_options& http, unsigned short port) {
    const std::string scheme = http.tls.is_wanted() ? "https://" : "http://";
    return scheme + authority_of(http.address, port);
}

std::unique_ptr<serve::grpc_front> grpc_front_of(const serve_options& options, const serve::http_options& http,
                                                 serve::server& models, const serve::log_sink& sink) {
    if (!options.grpc_port) return nullptr;
    serve::grpc_options grpc;
    grpc.address = http.address;
    grpc.port = *options.grpc_port;
    grpc.message_bytes = http.body_bytes;
    grpc.handshake_time = http.header_time;
    grpc.write_time = http.write_time;
    grpc.threads = http.threads;
    grpc.spin_time = http.spin_time;
    grpc.budget = http.budget;
    grpc.connections = http.connections;
    grpc.connections_of_client = http.connections_of_client;
    grpc.trusted_proxies = http.trusted_proxies;
    grpc.clients = http.clients;
    grpc.host_names = http.host_names;
    grpc.tls = http.tls;
    grpc.log_requests = http.log_requests;
    grpc.spans = http.spans;
    grpc.shared_memory = http.shared_memory;
    grpc.shares_port = http.shares_port;
    grpc.repository_control = http.repository_control;
    grpc.version = http.version;
    return std::make_unique<serve::grpc_front>(models, grpc, sink);
}

// Who may reach the server may use it, where nothing asks who it is.
void warn_where_open(const serve::http_options& http, const serve::log_sink& sink) {
    if (is_loopback(http.address) || http.clients || !http.tls.client_ca.empty()) return;
    sink({log_level::warn,
          "open_to_all",
          "anyone who reaches " + http.address +
              " may use the models and read the metrics: there are no --tokens and no --tls-client-ca",
          {}});
}

// Says once of each device that it has failed.
class device_watch {
public:
    device_watch(const serve::server& models, const serve::log_sink& sink) : models_(models), sink_(sink) {}

    // Whether there is nothing left to serve.
    bool has_lost_all() {
        const auto all = models_.all();
        std::size_t lost = 0;
        for (const auto& each : all) {
            // A model that workers could not load again is lost without a device: its file may come back.
            const std::vector<std::string> devices = each->network().lost_devices();
            lost += each->is_lost() && !(each->network().is_lost() && devices.empty()) ? 1 : 0;
            for (const std::string& name : devices) {
                if (!said_.insert(name).second) continue;
                sink_({log_level::error,
                       "device_lost",
                       name +
                           " has failed. Models that are on no other device do not answer until this server is started "
                           "again, and then the server is not ready. All others answer",
                       {}});
            }
        }
        return lost != 0 && lost == all.size();
    }

private:
    const serve::server& models_;
    const serve::log_sink& sink_;
    std::set<std::string> said_;
};

serve::network_engine_options engine_options_of(const serve_options& options) {
    serve::network_engine_options made;
    made.device = options.device;
    made.machine.cuda = options.opens_gpu_memory || !options.device.starts_with("cpu");
    made.most_run_bytes = options.most_run_bytes;
    made.kept_bytes = options.kept_bytes;
    made.links = links_of(options.follows_links);
    return made;
}

std::unique_ptr<serve::engine> make_network_engine(const serve_options& options) {
    const auto make = [&] {
        serve::become_less_urgent();  // for the devices' workers, which this thread makes
        return std::make_unique<serve::network_engine>(engine_options_of(options));
    };
    return std::async(std::launch::async, make).get();
}

// This process makes no device then.
std::unique_ptr<serve::worker_engine> make_workers(const serve_options& options, const serve::log_sink& sink) {
    if (options.workers == 0) return nullptr;
    return std::make_unique<serve::worker_engine>(
        serve::worker_engine_options{.workers = options.workers,
                                     .spares = options.spare_workers,
                                     .engine = engine_options_of(options),
                                     .timeout = std::chrono::seconds(options.worker_seconds),
                                     .log = sink});
}

// Empty: no thread looks for changes.
std::unique_ptr<serve::repository_watch> watch_of(const serve_options& options, const serve::model_source& source,
                                                  const serve::log_sink& sink) {
    if (options.poll_seconds == 0) return nullptr;
    return std::make_unique<serve::repository_watch>(
        source, serve::repository_watch_options{.interval = std::chrono::seconds(options.poll_seconds),
                                                .loads_same_contents = options.workers != 0,
                                                .log = sink});
}

// Empty: clients share no memory with the server. It must not outlive the engine.
std::shared_ptr<serve::shared_regions> regions_of(const serve_options& options, serve::engine& engine,
                                                  const serve::log_sink& sink) {
    if (!options.shares_memory && !options.opens_gpu_memory) return nullptr;
    if (!options.opens_gpu_memory) return std::make_shared<serve::shared_regions>();
    auto gpus = engine.gpu_memory();
    if (!gpus) throw error(errc::unsupported, "--cuda-shared-memory: what this server computes with has no GPUs");
    const std::string why = gpus->why_not();
    if (!why.empty()) {
        sink({log_level::warn, "no_cuda_shared_memory", "--cuda-shared-memory: each register is refused: " + why, {}});
    }
    return std::make_shared<serve::shared_regions>(
        serve::shared_regions_options{.system = options.shares_memory, .gpus = std::move(gpus)});
}

}  // namespace

void serve_models(const serve_options& options, std::ostream& log) { serve_models(options, log, make_network_engine); }

void serve_models(const serve_options& options, std::ostream& log, const engine_maker& make_engine) {
    if (!serve::http_supported()) {
        throw error(errc::unsupported, "this sluice was built without HTTP: " + serve::why_no_http());
    }
    if (options.grpc_port && !serve::grpc_supported()) {
        throw error(errc::invalid_argument, "--grpc-port: this sluice was built without gRPC: " + serve::why_no_grpc());
    }
    if (options.http.tls.is_wanted() && !serve::tls_supported()) {
        throw error(errc::invalid_argument,
                    "--tls-certificate: this sluice was built without TLS: " + serve::why_no_tls());
    }
    if (options.workers != 0 && options.opens_gpu_memory) {
        throw error(errc::invalid_argument,
                    "--cuda-shared-memory: with --workers this process has no device that could open such memory");
    }
    // gRPC would write lines of its own between those of the log, one for each handshake that fails.
    ::setenv("GRPC_VERBOSITY", "NONE", 0);
    std::unique_ptr<serve::engine> engine;  // it outlives what refers to its devices: regions of memory too
    serve::http_options http = options.http;
    http.version = SLUICE_VERSION;
    http.budget = std::make_shared<serve::request_budget>(http.all_bodies_bytes);
    std::optional<token_watch> tokens;
    if (!options.tokens.empty()) {
        tokens.emplace(options.tokens, !options.states.empty());
        http.clients = std::make_shared<serve::access_list>(tokens->first(), http.budget);
    }
    http.repository_control = options.lets_load || is_loopback(http.address);
    serve::http_port port(http);
    if (!options.user.empty()) become_user(options.user);  // before anything is read that others have written
    if (!options.user.empty() && tokens) tokens->require_readable(options.user);

    const log_writer lines(log, options.log_as_json);
    const serve::log_sink sink = lines.sink();
    const serve::model_source source = source_of(options);
    // CUDA looks at it when it is first used. What the environment says holds.
    if (source.wants_resident()) ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    serve::set_compute_nice(options.compute_nice);
    auto workers = make_workers(options, sink);
    const serve::worker_engine* const counted = workers.get();
    engine = workers ? std::move(workers) : make_engine(options);
    serve::server models(
        source, *engine, sink,
        {.loads_on_demand = options.loads_on_demand, .most_bytes = options.model_bytes, .states = options.states});
    const std::unique_ptr<serve::repository_watch> watch = watch_of(options, source, sink);
    models.load_all();
    const signal_guard guard;  // until now a signal ends the process

    http.shared_memory = regions_of(options, *engine, sink);
    if (!http.otlp.empty()) http.spans = std::make_shared<serve::span_file>(http.otlp, http.version, sink);
    const std::unique_ptr<serve::grpc_front> grpc = grpc_front_of(options, http, models, sink);
    http.more_metrics = [&] {
        return lines.metrics() + (grpc ? grpc->metrics() : "") + (counted ? counted->metrics() : "");
    };
    serve::http_front front(models, std::move(port), http, sink);  // it ends before gRPC's
    sink({log_level::info, "listening", "listening on " + url_of(http, front.port()), {}});
    if (grpc) {
        const std::string where = authority_of(http.address, grpc->port());
        sink({log_level::info, "listening_grpc", "listening for gRPC on " + where, {}});
    }
    warn_where_open(http, sink);
    if (watch) watch->start(models);
    device_watch devices(models, sink);
    serve::quiet_watch quiet{std::chrono::seconds(options.trim_seconds)};
    bool has_lost_all = false;
    const std::chrono::seconds idle(options.trim_seconds);
    auto looked_for_idle = std::chrono::steady_clock::now();
    auto next_look = looked_for_idle;
    while (!guard.requested() && !has_lost_all) {
        std::this_thread::sleep_for(poll_time);
        if (tokens) tokens->look(*http.clients, sink);
        auto now = std::chrono::steady_clock::now();
        if (now >= next_look) {  // it asks each model, which takes time of requests where there are thousands
            has_lost_all = devices.has_lost_all();
            const auto began = std::exchange(now, std::chrono::steady_clock::now());
            next_look = now + std::min<std::chrono::nanoseconds>((now - began) * looks_rest, longest_rest);
        }
        const auto happened = models.timeline().added() + models.changes();
        const bool is_quiet = quiet.is_over(happened, now) && http.budget->bytes() == 0;
        if (idle.count() != 0 && (is_quiet || now - looked_for_idle > idle)) {
            models.give_back_idle(is_quiet ? std::chrono::seconds(0) : idle);
            looked_for_idle = now;
        }
        if (is_quiet) engine->give_back_memory();  // this thread takes no requests
    }

    if (watch) watch->stop(std::chrono::milliseconds(0));
    const std::chrono::seconds time(options.drain_seconds);
    auto cut_of_grpc = std::async(std::launch::async, [&] { return grpc ? grpc->drain(time) : 0; });
    const std::size_t cut = front.drain(time) + cut_of_grpc.get();
    if (http.spans) http.spans->end();  // the file is whole now
    if (cut == 0) {
        sink({log_level::info, "end", "every request that was accepted is answered", {}});
        // An orderly end would flush standard error, and wait for a write to a pipe without a reader.
        const bool has_ended = (!watch || watch->stop(longest_load_at_end)) && lines.flush(log_writer::longest_end);
        if (!has_ended) std::_Exit(has_lost_all ? failed : success);
        if (!has_lost_all) return;
        throw error(errc::device_failed, "the devices of all models have failed: start the server again");
    }
    sink({log_level::error, "end", std::to_string(cut) + " requests were cut off: the time to end was over", {}});
    lines.flush(log_writer::longest_end);
    std::_Exit(failed);  // a model that is computing cannot be stopped
}

}  // namespace sluice::app
