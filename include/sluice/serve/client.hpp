// SPDX-License-Identifier: Apache-2.0
// client: asks a server of the Open Inference Protocol (KServe v2) over HTTP: Sluice's, or another one that has binary
// tensor data.
//
//     serve::client server("127.0.0.1:8000");
//     serve::infer_request request{.model = "digits"};
//     request.inputs.push_back({"input", nn::any_tensor(pixels, {1, 64})});
//     serve::infer_answer answer = co_await server.infer(std::move(request));
//     std::span<const float> logits = answer.at("logits").values<float>();
//
// Without coroutines: sync_wait(server.infer(request)). In a Boost.Asio program: async_wait(server.infer(request),
// token) of sluice/asio.hpp.
//
// Threads: a client has one thread, for its connections. All members may be called on any thread. The coroutine that
// awaits continues on the client's thread, where long work holds up other answers: co_await resume_on(executor) leaves
// it.
//
// Errors: refusal for what the server has refused, with its text and kind; error otherwise: timed_out when the
// request's deadline is over, io_failed when the connection breaks or the answer is wrong, canceled when the client
// ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/async/task.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

// How a client connects.
struct client_options {
    std::string token = {};  // "Authorization: Bearer TOKEN"; empty: none
    // For https://, in PEM. Authorities to which the server's certificate must lead; empty: those that the system
    // trusts.
    std::filesystem::path ca = {};
    // This client's certificate and key, for a server that asks for them; empty: none.
    std::filesystem::path certificate = {};
    std::filesystem::path key = {};        // of the certificate
    std::size_t connections = 8;           // at the same time; more requests wait
    std::size_t answer_bytes = 1UL << 30;  // a longer answer is refused
};

// An input or output of a request, with its name.
struct named_tensor {
    std::string name;      // as the model has it
    nn::any_tensor value;  // in host memory
};

// A request to a model.
struct infer_request {
    std::string model;                      // its name
    std::string version = {};               // empty: the server chooses
    std::vector<named_tensor> inputs = {};  // in any order
    std::vector<std::string> outputs = {};  // empty: all
    std::string id = {};                    // the answer has it, too
    std::size_t priority = 0;               // 1 comes first; 0: the model's default
    // For the whole request, the wait for a connection too, above 0 and at most an hour. The server gets it as the
    // longest time in its queue.
    std::chrono::milliseconds deadline{30'000};
};

// What the server has answered.
struct infer_answer {
    std::string model;                  // that has answered
    std::string version;                // that has answered
    std::string id;                     // the request's
    std::vector<named_tensor> outputs;  // in the server's order

    // Throws error(out_of_range), with the names that there are. Costs O(outputs).
    const nn::any_tensor& at(std::string_view name) const;
};

class client {
public:
    // `server`: "HOST:PORT", "http://HOST:PORT" or "https://HOST:PORT". Does not connect yet. Throws error:
    // invalid_argument for another text, what is wrong with the files for TLS, unsupported when Sluice was built
    // without HTTP, or without TLS where that is asked for. Costs a thread.
    explicit client(std::string_view server, client_options options = {});
    client(const client&) = delete;  // it owns a thread
    client& operator=(const client&) = delete;
    // Requests that have no answer end with errc::canceled. Waits for the client's thread, unless it runs there.
    ~client();

    // Sends the request when it is awaited. The client must outlive the start of the task.
    //
    // Connections are kept. Where one that was used before breaks before a byte of the answer has come, the server has
    // probably closed it meanwhile, and the request is sent once more on a new connection. This is safe because
    // inference changes nothing on the server; a model may be computed twice. Nothing else is repeated.
    //
    // Throws error(invalid_argument) for an input that is not in host memory. Costs one request to the server,
    // sometimes two, and O(bytes) of its inputs and outputs.
    task<infer_answer> infer(infer_request request);

    // Whether the server and all its models are ready; false also when it cannot be reached within this time. Costs one
    // request to the server.
    task<bool> is_ready(std::chrono::milliseconds deadline = std::chrono::milliseconds(5000));

    class implementation;

private:
    std::shared_ptr<implementation> made_;
};

}  // namespace sluice::serve
