// SPDX-License-Identifier: Apache-2.0
#include "serve/http/json_body.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>

#include "serve/request_checks.hpp"

namespace sluice::serve {
namespace {

using json = nlohmann::json;

constexpr std::size_t longest_body = 1 << 16;
constexpr int deepest = 8;

}  // namespace

json object_of(const std::string& body) {
    if (body.empty()) return json::object();
    if (body.size() > longest_body) refuse_request("the body is longer than 64 KiB");
    const auto watch = [](int depth, json::parse_event_t, json&) {
        if (depth > deepest) refuse_request("the body is nested too deep");
        return true;
    };
    json value = json::parse(body, watch, false);
    if (!value.is_object()) refuse_request("the body is no JSON object");
    return value;
}

}  // namespace sluice::serve
