// SPDX-License-Identifier: Apache-2.0
// The least that a server of one network can be, to compare `sluice serve` with: Beast reads a request and writes an
// answer, simdjson reads the JSON of the binary form, and the engine computes on the same thread. No queue, no
// batches, no limits of time or size, no other paths; a request that it does not expect ends its connection.
//
//     bench_bare_handler PORT MODEL
#include <simdjson.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/serve/network_engine.hpp"

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using namespace sluice;

std::size_t number(std::string_view text) {
    std::size_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

class session : public std::enable_shared_from_this<session> {
public:
    session(tcp::socket socket, const serve::loaded_model& model) : socket_(std::move(socket)), model_(model) {}

    void read() {
        request_ = {};
        http::async_read(socket_, buffer_, request_, [self = shared_from_this()](error_code failure, std::size_t) {
            if (!failure && self->answer()) self->write();
        });
    }

private:
    void write() {
        http::async_write(socket_, answer_, [self = shared_from_this()](error_code failure, std::size_t) {
            if (!failure) self->read();
        });
    }

    bool answer() {
        answer_ = {};
        answer_.keep_alive(true);
        if (request_.method() == http::verb::get) {
            answer_.prepare_payload();
            return true;
        }
        std::string& body = request_.body();
        const auto field = request_["Inference-Header-Content-Length"];
        const std::size_t json_bytes = number({field.data(), field.size()});
        std::string text = body.substr(0, json_bytes);
        simdjson::dom::element parsed;
        std::uint64_t bytes = 0;
        if (json_bytes > body.size() || parser_.parse(text).get(parsed) != simdjson::SUCCESS) return false;
        const auto input = parsed["inputs"].at(0);
        if (input["parameters"]["binary_data_size"].get(bytes) != simdjson::SUCCESS) return false;
        if (bytes != body.size() - json_bytes) return false;
        std::vector<std::size_t> shape;
        for (const auto length : input["shape"]) shape.push_back(length.get_uint64().value());
        const auto data = std::as_bytes(std::span(body)).subspan(json_bytes);
        std::vector<nn::any_tensor> inputs;
        std::byte* to_host = nullptr;
        inputs.push_back(nn::any_tensor::make_on_host(io::dtype::f32, std::move(shape), to_host));
        if (inputs.front().size_bytes() != data.size()) return false;
        std::memcpy(to_host, data.data(), data.size());
        const std::vector<nn::any_tensor> outputs = model_.run(std::move(inputs));
        const auto result = outputs.front().bytes();
        std::string& to = answer_.body();
        to = R"({"model_name":"digits","outputs":[{"name":"output","datatype":"FP32","shape":[)" +
             std::to_string(outputs.front().shape()[0]) + "," + std::to_string(outputs.front().shape()[1]) +
             R"(],"parameters":{"binary_data_size":)" + std::to_string(result.size()) + "}}]}";
        answer_.set("Inference-Header-Content-Length", std::to_string(to.size()));
        answer_.set(http::field::content_type, "application/octet-stream");
        to.append(reinterpret_cast<const char*>(result.data()), result.size());
        answer_.prepare_payload();
        return true;
    }

    tcp::socket socket_;
    const serve::loaded_model& model_;
    boost::beast::flat_buffer buffer_;
    http::request<http::string_body> request_;
    http::response<http::string_body> answer_;
    simdjson::dom::parser parser_;
};

void accept(tcp::acceptor& at, const serve::loaded_model& model) {
    at.async_accept([&](error_code failure, tcp::socket socket) {
        if (failure) return;
        socket.set_option(tcp::no_delay(true));
        std::make_shared<session>(std::move(socket), model)->read();
        accept(at, model);
    });
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) return std::fputs("usage: bench_bare_handler PORT MODEL\n", stderr), 2;
    try {
        serve::network_engine engine({.device = "cpu", .machine = {.cuda = false}});
        const auto model = engine.load({.name = "digits", .file = words[2]}, {});
        asio::io_context io(1);
        tcp::acceptor at(io, {asio::ip::address_v4::loopback(), static_cast<unsigned short>(number(words[1]))});
        accept(at, *model);
        io.run();
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "bench_bare_handler: %s\n", failure.what());
        return 1;
    }
}
