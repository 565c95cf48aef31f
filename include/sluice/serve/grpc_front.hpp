// SPDX-License-Identifier: Apache-2.0
// grpc_front: serves models over gRPC by the Open Inference Protocol (KServe v2), the service
// inference.GRPCInferenceService.
//
//     serve::grpc_front grpc(models, {.port = 8001});
//     ...
//     grpc.drain(std::chrono::seconds(30));
//
// Needs gRPC and protobuf when Sluice is built; grpc_supported says whether they were there.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "sluice/serve/access_list.hpp"
#include "sluice/serve/log.hpp"
#include "sluice/serve/request_budget.hpp"
#include "sluice/serve/server.hpp"
#include "sluice/serve/shared_regions.hpp"
#include "sluice/serve/span_file.hpp"
#include "sluice/serve/tls.hpp"

namespace sluice::serve {

bool grpc_supported() noexcept;  // whether Sluice was built with gRPC and protobuf; costs O(1)
// Why it was not: "gRPC (libgrpc++-dev) was not found", "SLUICE_GRPC=OFF"; empty when it was. Costs a copy of the text.
std::string why_no_grpc();

// How a front end listens, and what it lets clients do.
struct grpc_options {
    std::string address = "127.0.0.1";  // an IPv4 or IPv6 address
    unsigned short port = 8001;         // 0: one that is free
    std::size_t threads = 1;            // that take requests, from 1 to 256
    // How long such a thread looks for the next event without sleep, from 0 to 1 s: see http_options.
    std::chrono::microseconds spin_time{0};
    std::size_t connections = 2000;                    // see http_options; more are closed
    std::size_t connections_of_client = 1000;          // of one address: see http_options
    std::vector<std::string> trusted_proxies = {};     // see http_options
    std::size_t message_bytes = 64 << 20;              // of one request; longer ones are refused (RESOURCE_EXHAUSTED)
    std::chrono::milliseconds handshake_time{10'000};  // from the connection to the first call that it may send
    // That an answer has to be taken by its client, from 1 ms to 24 hours. Then its call is cancelled. A short answer
    // is taken when it is in the system's buffers; a long one when its client has read what does not fit there.
    std::chrono::milliseconds write_time{30'000};
    // Shared with another front end of the server. Empty: that of the clients, or its own, of 1 GiB.
    std::shared_ptr<request_budget> budget = {};
    // A call has the token of one of them (the metadata "authorization: Bearer TOKEN"), unless it asks for the server's
    // health, and may do what that client may: see http_options.
    std::shared_ptr<access_list> clients = {};
    // Names by which calls may call this server (:authority): see http_options. Others get PERMISSION_DENIED.
    std::vector<std::string> host_names = {};
    // With a certificate the port speaks TLS only. The files are read again when they change; connections that exist
    // keep what they have.
    tls_files tls = {};
    // Another process may listen on the same port, if it also says so.
    bool shares_port = false;
    // Clients may register memory of this machine, or of its GPUs, which requests read and write; the regions say
    // which. Empty: they may not.
    std::shared_ptr<shared_regions> shared_memory = {};
    // Whether clients may load and unload models.
    bool repository_control = true;
    // One line of the log for each answer.
    bool log_requests = false;
    // Spans of requests to models are written there. A request whose caller does not sample its trace is not among
    // them. Empty: none are.
    std::shared_ptr<span_file> spans = {};
    // Of the server, in its metadata.
    std::string version = {};
};

class grpc_front {
public:
    // Listens, and starts the threads. `models` must outlive this. Throws error: invalid_argument for a text that is no
    // address, a number that is out of its range and clients of another budget, io_failed when the address cannot be
    // listened on, unsupported when Sluice was built without gRPC, or without TLS where that is asked for; and before
    // it listens, for files of TLS: bad_file for what is wrong in them, io_failed when they cannot be read,
    // invalid_argument when the certificate or the key is missing. Costs the threads, and what gRPC allocates for its
    // server.
    grpc_front(server& models, const grpc_options& options = {}, log_sink log = {});
    grpc_front(const grpc_front&) = delete;  // it owns threads
    grpc_front& operator=(const grpc_front&) = delete;
    // drain(0), then blocks until the model has let go of each call.
    ~grpc_front();

    unsigned short port() const noexcept;  // the port's number, also where the options said 0; costs O(1)

    // Refuses new calls (UNAVAILABLE), and blocks until those that were accepted are answered, at most for this time.
    // Then all connections are closed. Gives the number of calls that were cut off. Costs the wait, and the ends of the
    // connections.
    std::size_t drain(std::chrono::milliseconds at_most);

    // For Prometheus: answers by their status, and what else only this front end counts. On any thread. Costs O(bytes
    // of the text).
    std::string metrics() const;

    class implementation;

private:
    std::unique_ptr<implementation> made_;
};

}  // namespace sluice::serve
