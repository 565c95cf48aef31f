// SPDX-License-Identifier: Apache-2.0
// http_front: serves models over HTTP/1.1 by the Open Inference Protocol (KServe v2), with binary tensor data.
//
//     serve::http_front http(models, {.port = 8000});
//     ...
//     http.drain(std::chrono::seconds(30));
//
// Needs Boost 1.81 and simdjson when Sluice is built; http_supported says whether they were there.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/serve/access_list.hpp"
#include "sluice/serve/http_port.hpp"
#include "sluice/serve/log.hpp"
#include "sluice/serve/request_budget.hpp"
#include "sluice/serve/server.hpp"
#include "sluice/serve/shared_regions.hpp"
#include "sluice/serve/span_file.hpp"
#include "sluice/serve/tls.hpp"

namespace sluice::serve {

bool http_supported() noexcept;  // whether Sluice was built with Boost and simdjson; costs O(1)
// Why it was not: "Boost 1.81 or later (libboost1.81-dev) was not found", "SLUICE_HTTP=OFF"; empty when it was. Costs a
// copy of the text.
std::string why_no_http();

// How a front end listens, and what it lets clients do.
struct http_options {
    std::string address = "127.0.0.1";  // an IPv4 or IPv6 address
    unsigned short port = 8000;         // 0: one that is free
    // Threads that take requests, each with its own connections.
    std::size_t threads = 1;
    // How long a thread looks for the next request without sleep, from 0 to 1 s. A request that comes within this time
    // is answered sooner, by the time that the system takes to wake a thread; meanwhile the thread takes a processor.
    // For a server that has more processors than busy threads.
    std::chrono::microseconds spin_time{0};
    // More are refused, but for the one that has been idle longest: it makes room. Further health_connections are for
    // requests for the server's health only.
    std::size_t connections = 2000;
    std::size_t health_connections = 16;  // in addition to `connections`
    // Of one address, of IPv6 of one /64 network; more are refused. Addresses of this machine and trusted_proxies have
    // only the limit of all. A request of a trusted proxy counts for the client that X-Forwarded-For names: the last
    // address there that is none of a trusted proxy.
    std::size_t connections_of_client = 1000;
    std::vector<std::string> trusted_proxies = {};  // addresses of IPv4 or IPv6
    std::size_t header_bytes = 16 << 10;            // of a request; a longer one is refused
    std::size_t body_bytes = 64 << 20;              // of a request; a longer one is refused
    std::size_t json_bytes = 16 << 20;              // of the body's JSON
    std::size_t all_bodies_bytes = 1UL << 30;       // of all requests at a time
    // Shared with another front end of the server; its bytes take the place of all_bodies_bytes. Empty: that of the
    // clients, or its own.
    std::shared_ptr<request_budget> budget = {};
    std::chrono::milliseconds header_time{10'000};  // from the first byte of a request to the last of its header
    std::chrono::milliseconds body_time{30'000};    // from there to its last byte
    std::chrono::milliseconds idle_time{75'000};    // between two requests
    // Of an answer, without progress. All of it has this time, and as much again for each whole MiB.
    std::chrono::milliseconds write_time{30'000};
    // A request has the token of one of them ("Authorization: Bearer TOKEN"), unless it asks for the page or the
    // server's health, and may do what that client may. Their memory is a part of `budget`. Empty: no request needs
    // one.
    std::shared_ptr<access_list> clients = {};
    // Names by which requests may call this server (Host), without a port. On an address of this machine only, others
    // than these, localhost and addresses of this machine get 421, so that no page of another site can have its name
    // lead here. On other addresses only where there are names. Empty: no more names.
    std::vector<std::string> host_names = {};
    // With a certificate the port speaks HTTPS only. The files are read again when they change; connections that exist
    // keep what they have.
    tls_files tls = {};
    // Another process may listen on the same port, if it also says so: a new server starts before the old one ends.
    bool shares_port = false;
    // Clients may register memory of this machine, or of its GPUs, which requests read and write; the regions say
    // which. Empty: they may not.
    std::shared_ptr<shared_regions> shared_memory = {};
    // Whether clients may load and unload models.
    bool repository_control = true;
    // One line of the log for each answer.
    bool log_requests = false;
    // Spans of requests to models are written to this file as OTLP/JSON, one message a line; empty: none are. The file
    // appears when the front end has drained, or when 64 MiB are full; the next parts are FILE.1, FILE.2, ... A request
    // whose caller does not sample its trace is not among them.
    std::filesystem::path otlp = {};
    // Shared with another front end of the server; it takes the place of otlp. Empty: its own.
    std::shared_ptr<span_file> spans = {};
    // Models that have series of their own in /metrics: those that were asked last. The others are counted.
    std::size_t metrics_models = 200;
    // Appended to the text of /metrics: another front end's. Called on any thread, while this front end is there.
    std::function<std::string()> more_metrics = {};
    // Of the server, in its metadata.
    std::string version = {};
};

class http_front {
public:
    // Listens, and starts the threads. `models` must outlive this. Throws error: invalid_argument for a text that is no
    // address, a spin_time out of its range and clients of another budget, io_failed when the address cannot be
    // listened on or the file for spans not be created, unsupported when Sluice was built without HTTP, or without TLS
    // where that is asked for; and before it listens, for files of TLS:
    // bad_file for what is wrong in them, io_failed when they cannot be read, invalid_argument when the certificate or
    // the key is missing. Costs what http_port's constructor costs, and the threads.
    http_front(server& models, const http_options& options = {}, log_sink log = {});
    // The same on a port that is bound already. Its address and number of threads hold, and not those of `options`.
    // Costs the threads.
    http_front(server& models, http_port port, const http_options& options = {}, log_sink log = {});
    http_front(const http_front&) = delete;  // it owns threads
    http_front& operator=(const http_front&) = delete;
    ~http_front();  // drain(0); then blocks until its threads have ended

    unsigned short port() const noexcept;  // the port's number, also where the options said 0; costs O(1)

    // Refuses new requests (503) and new connections, and blocks until those that were accepted are answered, at most
    // for this time. Then all connections are closed. Gives the number of requests that were cut off. Costs the wait,
    // and the ends of the connections.
    std::size_t drain(std::chrono::milliseconds at_most);

    class implementation;

private:
    std::unique_ptr<implementation> made_;
};

}  // namespace sluice::serve
