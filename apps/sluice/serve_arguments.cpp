// SPDX-License-Identifier: Apache-2.0
#include "serve_arguments.hpp"

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>

#include "exit_status.hpp"
#include "sluice/serve/grpc_front.hpp"
#include "sluice/serve/model_config.hpp"

namespace sluice::app {
namespace {

// A number of seconds, kept in milliseconds.
void add_time(CLI::App& app, const std::string& option, const std::string& help, std::chrono::milliseconds& to) {
    const auto shown = std::chrono::duration_cast<std::chrono::seconds>(to).count();
    app.add_option_function<int>(
           option, [&to](int seconds) { to = std::chrono::seconds(seconds); },
           help + " (default: " + std::to_string(shown) + ")")
        ->type_name("SECONDS")
        ->check(CLI::Range(1, 24 * 3600));
}

void add_serve_limits(CLI::App& app, serve_options& options) {
    serve::http_options& http = options.http;
    const auto add_count = [&app](const char* option, const char* help, std::size_t& to, std::size_t most) {
        app.add_option(option, to, help)
            ->type_name("COUNT")
            ->capture_default_str()
            ->check(CLI::Range(std::size_t{1}, most));
    };
    add_count("--threads", "Threads that take requests", http.threads, 256);
    app.add_option_function<std::size_t>(
           "--spin-us", [&http](std::size_t time) { http.spin_time = std::chrono::microseconds(time); },
           "How long such a thread looks for the next request before it sleeps (default: 0)")
        ->type_name("MICROSECONDS")
        ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000}));
    app.add_option("--compute-nice", options.compute_nice,
                   "Steps of niceness that threads which compute have more than those that take requests")
        ->type_name("STEPS")
        ->capture_default_str()
        ->check(CLI::Range(0, 19));
    add_count("--connections", "Connections; one more takes the place of the longest idle, or is refused",
              http.connections, 1'000'000);
    add_count("--connections-per-client", "Connections from one address; not for those of this machine",
              http.connections_of_client, 1'000'000);
    add_count("--health-connections", "Connections beyond these, for requests for the server's health only",
              http.health_connections, 10'000);
    app.add_option(
           "--trusted-proxy", http.trusted_proxies,
           "The address of a proxy: it may have as many connections as there are, is read again at once after a "
           "refusal, and says in X-Forwarded-For for which client a request counts")
        ->type_name("ADDRESS");
    add_count("--max-body", "Bytes of a request's body", http.body_bytes, std::size_t{1} << 40);
    add_count("--max-json", "Bytes of a body's JSON", http.json_bytes, std::size_t{1} << 32);
    add_count("--max-memory", "Bytes of all requests' bodies", http.all_bodies_bytes, std::size_t{1} << 44);
    add_count("--metrics-models", "Models with series of their own in /metrics: those that were asked last",
              http.metrics_models, 1'000'000);
    app.add_option("--trim-after", options.trim_seconds,
                   "Time without a request after which memory that is not used goes back to the system; 0: never")
        ->type_name("SECONDS")
        ->capture_default_str()
        ->check(CLI::Range(0, 24 * 3600));
    add_count("--max-run-memory", "Bytes of the values that a run of a model has at a time; more is refused",
              options.most_run_bytes, std::size_t{1} << 44);
    app.add_option("--kept-memory", options.kept_bytes,
                   "Bytes that a network keeps between runs of different shapes, where its configuration says nothing")
        ->type_name("COUNT")
        ->capture_default_str()
        ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 40));
    add_time(app, "--header-timeout", "Time in which a request's header must arrive", http.header_time);
    add_time(app, "--body-timeout", "Time in which its body must arrive", http.body_time);
    add_time(app, "--idle-timeout", "Time between two requests of a connection", http.idle_time);
    add_time(
        app, "--write-timeout",
        "Time without progress of an answer, and for all of it as much for each MiB; over gRPC, time for all of it",
        http.write_time);
}

std::string serve_version() {
    const std::string http = serve::http_supported() ? "yes" : "no: " + serve::why_no_http();
    const std::string grpc = serve::grpc_supported() ? "yes" : "no: " + serve::why_no_grpc();
    const std::string yaml = serve::yaml_supported() ? "yes" : "no: " + serve::why_no_yaml();
    const std::string tls = serve::tls_supported() ? "yes" : "no: " + serve::why_no_tls();
    return std::string(SLUICE_VERSION) + "\nHTTP         " + http + "\ngRPC         " + grpc + "\nTLS          " + tls +
           "\nconfig.yaml  " + yaml;
}

void add_serve_workers(CLI::App& app, serve_options& options) {
    CLI::Option* const workers =
        app.add_option("--workers", options.workers,
                       "Processes that compute, so that a crash takes no request with it; 0: this one computes")
            ->type_name("COUNT")
            ->capture_default_str()
            ->check(CLI::Range(std::size_t{0}, std::size_t{256}));
    app.add_option("--spare-workers", options.spare_workers,
                   "More of them, with the models loaded, which take the place of one that ends")
        ->type_name("COUNT")
        ->capture_default_str()
        ->check(CLI::Range(std::size_t{0}, std::size_t{256}))
        ->needs(workers);
    app.add_option("--worker-timeout", options.worker_seconds,
                   "A worker that computes one batch for longer is killed, and the batch runs on another one")
        ->type_name("SECONDS")
        ->capture_default_str()
        ->check(CLI::Range(std::size_t{1}, std::size_t{24 * 3600}))
        ->needs(workers);
}

void add_serve_tls(CLI::App& app, serve::tls_files& tls) {
    CLI::Option* const certificate =
        app.add_option(
               "--tls-certificate", tls.certificate,
               "Serve HTTPS, and gRPC with TLS, only, with this certificate: PEM, then those between it and its root")
            ->type_name("FILE");
    CLI::Option* const key = app.add_option("--tls-key", tls.key, "Its private key in PEM, which others may not read")
                                 ->type_name("FILE")
                                 ->needs(certificate);
    certificate->needs(key);
    app.add_option("--tls-client-ca", tls.client_ca, "Clients must show a certificate that leads to one of these")
        ->type_name("FILE")
        ->needs(certificate);
}

}  // namespace

void add_serve(CLI::App& app, serve_options& options) {
    app.set_version_flag("--version", serve_version, "Print the version, and what this server was built with");
    CLI::Option* const models =
        app.add_option("model", options.models,
                       "Networks: ONNX, safetensors or trees' files, served under the files' names")
            ->type_name("[NAME=]MODEL");
    CLI::Option* const repository =
        app.add_option("--repository", options.repository,
                       "A folder of models: NAME/VERSION/model.onnx or NAME/model.onnx, with NAME/config.json or .yaml")
            ->type_name("DIR")
            ->excludes(models);
    app.add_option("--poll", options.poll_seconds,
                   "Time between two looks for models of the repository that have come, changed or gone; 0: never")
        ->type_name("SECONDS")
        ->capture_default_str()
        ->check(CLI::Range(0, 24 * 3600))
        ->needs(repository);
    CLI::Option* const on_demand =
        app.add_flag("--on-demand", options.loads_on_demand,
                     "Load a model when the first request for it comes, which waits for it; none at the start")
            ->needs(repository);
    app.add_option("--model-bytes", options.model_bytes,
                   "Bytes that the files of loaded models may have, each version 64 KiB more; beyond them, those that "
                   "were not asked for longest make room; 0: no bound")
        ->type_name("BYTES")
        ->capture_default_str()
        ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 44))
        ->needs(on_demand);
    app.add_option("--states", options.states,
                   "A folder that replicas share: the state of a sequence is there before its step is answered, so "
                   "that any of them makes the next step")
        ->type_name("DIR");
    app.add_flag("--follow-links", options.follows_links,
                 "Follow links out of the repository, and from external data of ONNX files out of their folder: for "
                 "caches that keep files in one store");
    app.add_option("--device", options.device, "cpu, cpu:N, cuda, cuda:N or auto")
        ->type_name("DEVICE")
        ->capture_default_str();
    app.add_option("--address", options.http.address, "The address to listen on; 0.0.0.0 is all of IPv4, :: of IPv6")
        ->type_name("ADDRESS")
        ->capture_default_str();
    app.add_option("--port", options.http.port, "The port; 0 is one that is free")
        ->type_name("PORT")
        ->capture_default_str();
    app.add_option("--grpc-port", options.grpc_port,
                   "Answer gRPC too, on this port of the same address; 0 is one that is free (default: no gRPC)")
        ->type_name("PORT");
    add_serve_limits(app, options);
    add_serve_workers(app, options);
    app.add_option("--tokens", options.tokens,
                   "A file with a client a line: TOKEN [name=NAME] [roles=infer,observe,load] [rate=N] [memory=BYTES] "
                   "[sequences=N]; requests must have a token (Authorization: Bearer TOKEN)")
        ->type_name("FILE");
    app.add_option("--host-name", options.http.host_names,
                   "A name by which requests may call this server, besides localhost and addresses of this machine; "
                   "looked at where it listens on such an address, and where there are names")
        ->type_name("NAME");
    add_serve_tls(app, options.http.tls);
    app.add_option("--user", options.user,
                   "Become this user when the port is bound and the tokens are read; for a server that root starts")
        ->type_name("NAME");
    app.add_flag("--share-port", options.http.shares_port,
                 "Listen where another server does that also has this option, so that it can be replaced");
    app.add_flag("--model-control", options.lets_load,
                 "Let clients load and unload models; without it only where the address is this machine's own");
    app.add_flag(
        "--shared-memory", options.shares_memory,
        "Let clients register shared memory of this machine for inputs and outputs; any that the server may open");
    app.add_flag("--cuda-shared-memory", options.opens_gpu_memory,
                 "Let clients of this machine register memory that they have on a GPU, for inputs and outputs");
    app.add_flag("--log-requests", options.http.log_requests, "Write a line to the log for each answer");
    app.add_option("--otlp", options.http.otlp,
                   "Write spans of requests to this file, as lines of OTLP/JSON; it appears at the end")
        ->type_name("FILE");
    app.add_option("--drain-timeout", options.drain_seconds,
                   "Longest time for accepted requests after SIGTERM; with requests left the status is 1")
        ->type_name("SECONDS")
        ->capture_default_str()
        ->check(CLI::Range(0, 24 * 3600));
    app.add_option_function<std::string>(
           "--log",
           [&options](const std::string& form) {
               if (form != "json" && form != "text") throw CLI::ValidationError("--log", "accepted are text and json");
               options.log_as_json = form == "json";
           },
           "Log lines on standard error: text, or a JSON object each (default: text)")
        ->type_name("FORM");
    app.footer(
        "The first signal (SIGTERM, SIGINT, SIGHUP) ends a server that listens with status 0, when all that it\n"
        "has accepted is answered; a second one ends it at once.\n\n" +
        std::string(exit_status_help) + "\n");
}

}  // namespace sluice::app
