// SPDX-License-Identifier: Apache-2.0
// `sluice serve`: answers requests to networks over HTTP, and gRPC where it is asked for, until a signal ends it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/nn/kept_limit.hpp"
#include "sluice/serve/engine.hpp"
#include "sluice/serve/http_front.hpp"

namespace sluice::app {

struct serve_options {
    std::vector<std::string> models;  // PATH or NAME=PATH
    std::filesystem::path repository;
    std::size_t poll_seconds = 0;  // between two looks for changes of the repository; 0: none
    bool loads_on_demand = false;  // models of the repository
    std::size_t model_bytes = 0;   // of the files of models that are loaded on demand; 0: no bound
    std::filesystem::path states;  // of sequences: a folder that replicas share; empty: they are in memory
    std::string device = "auto";
    serve::http_options http;
    std::optional<unsigned short> grpc_port;  // none: no gRPC
    std::filesystem::path tokens;             // a file; empty: no tokens are needed
    bool shares_memory = false;               // clients of this machine may register shared memory
    bool opens_gpu_memory = false;            // clients of this machine may register memory that they have on a GPU
    bool lets_load = false;                   // repository_control also where other machines may reach the server
    std::string user;  // that the process becomes when the HTTP port is bound; empty: it stays who it is
    std::size_t drain_seconds = 30;
    std::size_t trim_seconds = 10;                           // without a request, until memory goes back; 0: never
    bool follows_links = false;                              // out of the repository, and to external data
    std::size_t most_run_bytes = std::size_t{1} << 30;       // of the values of a run
    std::size_t kept_bytes = nn::kept_limit::default_bytes;  // of each network, between runs
    std::size_t workers = 0;                                 // processes that compute; 0: this one does
    std::size_t spare_workers = 1;                           // more, which take the place of one that ends
    std::size_t worker_seconds = 60;                         // longest time of a worker for one batch
    int compute_nice = 0;  // of the threads that compute, more than of those that take requests
    bool log_as_json = false;
};

// Makes what computes, once the process is the user that it becomes.
using engine_maker = std::function<std::unique_ptr<serve::engine>(const serve_options&)>;

// Blocks until SIGTERM, SIGINT or SIGHUP has come, or the devices of all models have failed, and the requests that were
// accepted are answered. Logs to `log`. Throws error: errc::device_failed in the second case, so that a service
// manager starts the process again; for models that cannot be loaded, an address that cannot be listened on and a
// user that it cannot become; errc::unsupported when Sluice was built without HTTP, and errc::invalid_argument when it
// was built without the gRPC or the TLS that is asked for, with what is missing. Does not return when requests had to
// be cut off: it ends the process with the status `failed`.
void serve_models(const serve_options& options, std::ostream& log);
void serve_models(const serve_options& options, std::ostream& log, const engine_maker& make_engine);

}  // namespace sluice::app
