// SPDX-License-Identifier: Apache-2.0
// ask_a_server: a client of the Open Inference Protocol. The server is in the same program, so that the example needs
// no other; a client of `sluice serve` differs in the address only.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "sluice/async/sync_wait.hpp"
#include "sluice/serve/client.hpp"
#include "sluice/serve/http_front.hpp"
#include "sluice/serve/network_engine.hpp"
#include "sluice/serve/server.hpp"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

task<> ask(serve::client& server) {
    serve::infer_request request{.model = "digits", .deadline = 5s};
    request.inputs.push_back({"input", nn::any_tensor(std::vector<float>(64, 0.5F), {1, 64})});
    auto asked = server.infer(std::move(request));
    const serve::infer_answer answer = co_await std::move(asked);

    const nn::any_tensor& logits = answer.at("output");
    std::printf("version %s of %s gives %zu numbers\n", answer.version.c_str(), answer.model.c_str(),
                logits.values<float>().size());

    serve::infer_request wrong{.model = "letters"};
    auto refused = server.infer(std::move(wrong));
    try {
        co_await std::move(refused);
    } catch (const serve::refusal& why) {
        std::printf("refused%s: %s\n", why.kind() == serve::refusal_kind::not_found ? ", not found" : "", why.what());
    }
}

}  // namespace

int main() try {
    serve::network_engine engine({.device = "cpu", .machine = {.cuda = false}});
    serve::server models(serve::model_source::files({SLUICE_SOURCE_DIR "/models/digits.safetensors"}), engine);
    models.load_all();
    const serve::http_front front(models, {.port = 0});

    serve::client server("127.0.0.1:" + std::to_string(front.port()));
    sync_wait(ask(server));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "ask_a_server: %s\n", failure.what());
    return 1;
}
