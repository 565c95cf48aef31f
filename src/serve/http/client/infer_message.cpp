// SPDX-License-Identifier: Apache-2.0
#include "serve/http/client/infer_message.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_answer(const std::string& why) {
    throw error(errc::io_failed, "the server's answer is wrong: " + why);
}

// Of models and versions, which are a part of the path.
void require_name(const std::string& name, const char* what) {
    const bool is_right = std::ranges::all_of(name, [](char each) {
        return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') || (each >= '0' && each <= '9') ||
               each == '.' || each == '-' || each == '_';
    });
    if (!is_right || name == "." || name == "..")
        throw error(errc::invalid_argument, in_quotes(name) + " is no name of a " + what);
}

std::size_t bytes_of(const std::vector<std::size_t>& shape, io::dtype type) {
    std::size_t bytes = io::size_of(type);
    for (const std::size_t each : shape)
        if (__builtin_mul_overflow(bytes, each, &bytes))
            refuse_answer("a shape has more elements than memory has bytes");
    return bytes;
}

named_tensor read_output(const json& from, std::string_view& data) {
    named_tensor made{from.at("name").get<std::string>(), {}};
    const auto type = dtype_of_datatype(from.at("datatype").get<std::string>());
    if (!type) refuse_answer("output " + in_quotes(made.name) + " has a type that is not supported");
    auto shape = from.at("shape").get<std::vector<std::size_t>>();
    const auto size = from.at("parameters").at("binary_data_size").get<std::size_t>();
    if (size != bytes_of(shape, *type) || size > data.size())
        refuse_answer("the bytes of output " + in_quotes(made.name) + " do not fill its shape");
    std::byte* to = nullptr;
    made.value = nn::any_tensor::make_on_host(*type, std::move(shape), to);
    if (size != 0) std::memcpy(to, data.data(), size);
    data.remove_prefix(size);
    return made;
}

std::string text_at(const json& from, const char* key) {
    return from.contains(key) ? from.at(key).get<std::string>() : std::string();
}

refusal_kind kind_of(int status) {
    switch (status) {
        case 401:
        case 403: return refusal_kind::forbidden;
        case 404:
        case 405: return refusal_kind::not_found;
        case 413: return refusal_kind::too_large;
        case 429: return refusal_kind::queue_full;
        case 499: return refusal_kind::cancelled;
        case 502:
        case 503: return refusal_kind::unavailable;
        case 504: return refusal_kind::late;
        default: return status >= 500 ? refusal_kind::failed : refusal_kind::bad_request;
    }
}

}  // namespace

infer_message write_infer_request(const infer_request& request) {
    require_name(request.model, "model");
    require_name(request.version, "version");
    if (request.model.empty()) throw error(errc::invalid_argument, "the request names no model");
    infer_message made;
    made.path = "/v2/models/" + request.model;
    if (!request.version.empty()) made.path += "/versions/" + request.version;
    made.path += "/infer";

    json head{{"inputs", json::array()},
              {"parameters",
               {{"binary_data_output", true},
                {"timeout", std::chrono::duration_cast<std::chrono::microseconds>(request.deadline).count()}}}};
    if (request.priority != 0) head["parameters"]["priority"] = request.priority;
    if (!request.id.empty()) head["id"] = request.id;
    for (const named_tensor& each : request.inputs) {
        if (!each.value || !each.value.is_on_host())
            throw error(errc::invalid_argument, "input " + in_quotes(each.name) + " is not in host memory");
        head["inputs"].push_back({{"name", each.name},
                                  {"datatype", datatype_of(each.value.type())},
                                  {"shape", each.value.shape()},
                                  {"parameters", {{"binary_data_size", each.value.size_bytes()}}}});
    }
    for (const std::string& each : request.outputs) head["outputs"].push_back({{"name", each}});
    try {
        made.body = head.dump();
    } catch (const json::exception&) {
        throw error(errc::invalid_argument, "a name of an input or an output is no UTF-8");
    }
    made.json_bytes = made.body.size();
    for (const named_tensor& each : request.inputs) {
        const auto bytes = each.value.bytes();
        made.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return made;
}

infer_answer read_infer_answer(std::string_view body, std::optional<std::size_t> json_bytes) {
    if (!json_bytes) refuse_answer("it has no binary tensor data, which the server may not support");
    if (*json_bytes > body.size()) refuse_answer("its JSON is longer than it is");
    try {
        const json head = json::parse(body.substr(0, *json_bytes));
        std::string_view data = body.substr(*json_bytes);
        infer_answer made{text_at(head, "model_name"), text_at(head, "model_version"), text_at(head, "id"), {}};
        for (const json& each : head.at("outputs")) made.outputs.push_back(read_output(each, data));
        if (!data.empty()) refuse_answer("it has more bytes than its outputs");
        return made;
    } catch (const json::exception& failure) {
        refuse_answer(printable(failure.what(), 200));
    }
}

refusal refusal_of_reply(int status, std::string_view body) {
    std::string why;
    std::size_t waiting = 0;
    const json said = json::parse(body, nullptr, false);
    if (said.is_object() && said.contains("error") && said["error"].is_string()) {
        why = said["error"].get<std::string>();
        if (said.contains("queue_length") && said["queue_length"].is_number_unsigned())
            waiting = said["queue_length"].get<std::size_t>();
    } else {
        why = "status " + std::to_string(status) + (body.empty() ? "" : ": ") + printable(std::string(body), 300);
    }
    return {kind_of(status), std::move(why), waiting};
}

const nn::any_tensor& infer_answer::at(std::string_view name) const {
    std::string names;
    for (const named_tensor& each : outputs) {
        if (each.name == name) return each.value;
        names += (names.empty() ? "" : ", ") + in_quotes(each.name);
    }
    throw error(errc::out_of_range, "the answer has no output " + in_quotes(std::string(name)) + "; it has " +
                                        (names.empty() ? "none" : names));
}

}  // namespace sluice::serve
