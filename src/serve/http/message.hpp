// SPDX-License-Identifier: Apache-2.0
// One request of HTTP as it arrives: Beast's parser for the grammar, our rules for what a request may be.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serve/budget_share.hpp"
#include "serve/unpack_body.hpp"

namespace sluice::serve {

// What we keep of a request. One object serves all requests of a connection, so that its memory is reused.
struct http_message {
    boost::beast::http::verb method = boost::beast::http::verb::unknown;
    std::string target;
    std::string content_type;  // lower case, without parameters
    std::string host;
    std::string origin;
    std::string authorization;
    std::string traceparent;
    std::string forwarded_for;     // X-Forwarded-For; several fields are one list
    std::size_t traceparents = 0;  // fields of this name
    std::string body;
    std::optional<std::size_t> json_bytes;  // Inference-Header-Content-Length
    bool expects_continue = false;
    content_coding coding = content_coding::identity;  // Content-Encoding
    bool has_coding = false;

    void clear() noexcept;  // all but the body
    // Keeps the memory of a body that has at most this.
    void clear_body(std::size_t kept_bytes) noexcept;
};

// Why a message is refused by its form, beyond Beast's reasons.
enum class message_fault {
    none,
    field_twice,
    no_host,
    bad_length,
    transfer_coding,
    bad_json_length,
    too_many_fields,
    body_too_long,
    no_memory  // others use the memory for requests
};

class message_parser final : public boost::beast::http::basic_parser<true> {
public:
    // The body's memory is taken from `share` as the body arrives, before it is kept. All must outlive the parser.
    message_parser(http_message& to, std::size_t header_bytes, std::size_t body_bytes, budget_share& share);

    message_fault fault() const noexcept { return fault_; }
    bool is_1_1() const noexcept { return is_1_1_; }
    // HTTP/1.0 closes after each answer.
    bool keeps_connection() const { return is_1_1_ && keep_alive(); }

private:
    using error_code = boost::beast::error_code;
    using text = boost::beast::string_view;

    void on_request_impl(boost::beast::http::verb method, text method_text, text target, int version,
                         error_code& failure) override;
    void on_response_impl(int, text, int, error_code&) override {}
    void on_field_impl(boost::beast::http::field field, text name, text value, error_code& failure) override;
    void on_header_impl(error_code& failure) override;
    void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code& failure) override { failure = {}; }
    std::size_t on_body_impl(text body, error_code& failure) override;
    void on_chunk_header_impl(std::uint64_t, text, error_code& failure) override { failure = {}; }
    std::size_t on_chunk_body_impl(std::uint64_t, text body, error_code& failure) override {
        return on_body_impl(body, failure);
    }
    void on_finish_impl(error_code& failure) override { failure = {}; }

    void take_once(std::string& to, text value, error_code& failure);
    void take_own_field(std::string_view name, std::string_view value, error_code& failure);
    void refuse(message_fault fault, error_code& failure);
    bool make_room(std::size_t length);

    http_message& to_;
    std::size_t body_bytes_;
    budget_share& share_;
    std::size_t fields_ = 0;
    bool is_1_1_ = false;
    bool is_header_over_ = false;
    bool has_length_ = false;
    message_fault fault_ = message_fault::none;
};

}  // namespace sluice::serve
