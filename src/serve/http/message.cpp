// SPDX-License-Identifier: Apache-2.0
#include "serve/http/message.hpp"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <charconv>
#include <utility>

namespace sluice::serve {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t most_fields = 100;

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

// "application/json" of "Application/JSON; charset=utf-8"
void take_media_type(std::string& to, std::string_view value) {
    value = value.substr(0, value.find(';'));
    while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
    to.assign(value);
    for (char& each : to)
        if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
}

}  // namespace

// Their memory stays: they are not longer than a header.
void http_message::clear() noexcept {
    method = http::verb::unknown;
    for (std::string* each : {&target, &content_type, &host, &origin, &authorization, &traceparent, &forwarded_for})
        each->clear();
    json_bytes.reset();
    traceparents = 0;
    expects_continue = false;
    coding = content_coding::identity;
    has_coding = false;
}

void http_message::clear_body(std::size_t kept_bytes) noexcept {
    body.clear();
    if (body.capacity() > kept_bytes) std::string().swap(body);
}

message_parser::message_parser(http_message& to, std::size_t header_bytes, std::size_t body_bytes, budget_share& share)
    : to_(to), body_bytes_(body_bytes), share_(share) {
    header_limit(static_cast<std::uint32_t>(header_bytes));
    body_limit(boost::none);  // ours, so that a length that is too long is refused by its number
}

void message_parser::refuse(message_fault fault, error_code& failure) {
    fault_ = fault;
    failure = http::error::bad_field;
}

void message_parser::on_request_impl(http::verb method, text, text target, int version, error_code& failure) {
    failure = {};
    is_1_1_ = version == 11;
    to_.method = method;
    to_.target.assign(target.data(), target.size());
}

void message_parser::take_once(std::string& to, text value, error_code& failure) {
    if (!to.empty()) return refuse(message_fault::field_twice, failure);
    to.assign(value.data(), value.size());
}

void message_parser::on_field_impl(http::field field, text name, text value, error_code& failure) {
    failure = {};
    if (++fields_ > most_fields) return refuse(message_fault::too_many_fields, failure);
    if (is_header_over_) return;  // a trailer says nothing here
    switch (field) {
        case http::field::host: return take_once(to_.host, value, failure);
        case http::field::origin: return take_once(to_.origin, value, failure);
        case http::field::authorization: return take_once(to_.authorization, value, failure);
        case http::field::content_type:
            if (!to_.content_type.empty()) return refuse(message_fault::field_twice, failure);
            return take_media_type(to_.content_type, view(value));
        case http::field::content_encoding:
            // Twice is a list, too.
            to_.coding = std::exchange(to_.has_coding, true) ? content_coding::other : content_coding_of(view(value));
            return;
        case http::field::content_length:  // Beast takes lists of equal lengths; a proxy may take another of them
            if (std::exchange(has_length_, true)) return refuse(message_fault::field_twice, failure);
            if (!std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; }))
                refuse(message_fault::bad_length, failure);
            return;
        case http::field::transfer_encoding:
            if (!boost::beast::iequals(value, "chunked")) refuse(message_fault::transfer_coding, failure);
            return;
        case http::field::expect: to_.expects_continue = boost::beast::iequals(value, "100-continue"); return;
        case http::field::unknown: return take_own_field(view(name), view(value), failure);
        default: return;
    }
}

void message_parser::take_own_field(std::string_view name, std::string_view value, error_code& failure) {
    const boost::beast::string_view its(name.data(), name.size());
    if (boost::beast::iequals(its, "traceparent")) {
        ++to_.traceparents;
        to_.traceparent = value;
    }
    if (boost::beast::iequals(its, "X-Forwarded-For")) {
        if (!to_.forwarded_for.empty()) to_.forwarded_for += ',';
        to_.forwarded_for += value;
    }
    if (!boost::beast::iequals(its, "Inference-Header-Content-Length")) return;
    if (to_.json_bytes) return refuse(message_fault::field_twice, failure);
    std::size_t length = 0;
    const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (wrong != std::errc() || end != value.data() + value.size())
        return refuse(message_fault::bad_json_length, failure);
    to_.json_bytes = length;
}

void message_parser::on_header_impl(error_code& failure) {
    failure = {};
    is_header_over_ = true;
    if (to_.host.empty() && is_1_1_) refuse(message_fault::no_host, failure);
}

// Memory grows with what has arrived, whatever length is declared: at most twice of it.
bool message_parser::make_room(std::size_t length) {
    if (length <= to_.body.capacity()) return true;
    const std::size_t most = content_length().value_or(body_bytes_);
    const std::size_t room = std::max(length, std::min<std::size_t>(2 * to_.body.capacity(), most));
    if (share_.hold(room)) {
        to_.body.reserve(room);
        return true;
    }
    if (!share_.hold(length)) return false;
    to_.body.reserve(length);
    return true;
}

std::size_t message_parser::on_body_impl(text body, error_code& failure) {
    failure = {};
    const std::size_t length = to_.body.size() + body.size();
    if (length > body_bytes_) {
        refuse(message_fault::body_too_long, failure);
        return 0;
    }
    if (!make_room(length)) {
        refuse(message_fault::no_memory, failure);
        return 0;
    }
    to_.body.append(body.data(), body.size());
    return body.size();
}

}  // namespace sluice::serve
