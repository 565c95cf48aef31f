// SPDX-License-Identifier: Apache-2.0
#include "serve/http/region_endpoints.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "serve/http/base64.hpp"
#include "serve/http/json_body.hpp"
#include "serve/region_checks.hpp"
#include "serve/shared_tensors.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

using json = nlohmann::json;

shared_regions& require_regions(const http_options& options, region_kind kind) {
    const bool is_cuda = kind == region_kind::cuda;
    if (!options.shared_memory || !options.shared_memory->allows(kind))
        throw refusal(refusal_kind::forbidden, is_cuda ? why_no_cuda_memory : why_no_shared_memory);
    return *options.shared_memory;
}

json state_of(const system_region& each) {
    return {{"name", each.name()}, {"key", each.key()}, {"offset", each.offset()}, {"byte_size", each.bytes()}};
}
json state_of(const cuda_region& each) {
    return {{"name", each.name()}, {"device_id", each.device_id()}, {"byte_size", each.bytes()}};
}

json states_of(const shared_regions& regions, region_kind kind, const std::string& name) {
    json all = json::array();
    if (kind == region_kind::system && !name.empty()) all.push_back(state_of(*regions.find_system(name)));
    if (kind == region_kind::cuda && !name.empty()) all.push_back(state_of(*regions.find_cuda(name)));
    if (!name.empty()) return all;
    if (kind == region_kind::system)
        for (const auto& each : regions.all_system()) all.push_back(state_of(*each));
    else
        for (const auto& each : regions.all_cuda()) all.push_back(state_of(*each));
    return all;
}

std::uint64_t require_count(const json& value, const std::string& key) {
    if (!value.is_number_unsigned()) refuse_region(in_quotes(key) + " is not an integer of at least 0");
    return value.get<std::uint64_t>();
}

[[noreturn]] void refuse_key(const std::string& key, const std::string& known) {
    refuse_region("the body has the unknown key " + in_quotes(key) + "; the keys are " + known);
}

[[noreturn]] void refuse_missing(const char* key) { refuse_region("the body lacks " + in_quotes(key)); }

void add_system_region(const std::string& name, const json& body, shared_regions& regions) {
    std::optional<std::string> key;
    std::optional<std::uint64_t> bytes;
    std::uint64_t offset = 0;
    for (const auto& [member, value] : body.items()) {
        if (member == "key") {
            if (!value.is_string()) refuse_region("'key' is not a text");
            key = value.get<std::string>();
        } else if (member == "byte_size") {
            bytes = require_count(value, member);
        } else if (member == "offset") {
            offset = require_count(value, member);
        } else {
            refuse_key(member, "key, offset, byte_size");
        }
    }
    if (!key) refuse_missing("key");
    if (!bytes) refuse_missing("byte_size");
    regions.add(name, *key, offset, *bytes);
}

gpu_memory_handle require_handle(const json& value) {
    gpu_memory_handle handle{};
    const bool is_right = value.is_object() && value.size() == 1 && value.contains("b64") && value["b64"].is_string() &&
                          decode_base64(value["b64"].get_ref<const std::string&>(), handle);
    if (!is_right) {
        refuse_region("'raw_handle' is no handle; accepted is {\"b64\": TEXT} with the base64 of the " +
                      std::to_string(handle.size()) + " bytes of a cudaIpcMemHandle_t");
    }
    return handle;
}

void add_cuda_region(const std::string& name, const json& body, shared_regions& regions) {
    std::optional<gpu_memory_handle> handle;
    std::optional<std::uint64_t> bytes;
    std::optional<std::int64_t> device_id;
    for (const auto& [member, value] : body.items()) {
        if (member == "raw_handle") {
            handle = require_handle(value);
        } else if (member == "byte_size") {
            bytes = require_count(value, member);
        } else if (member == "device_id") {
            const std::uint64_t number = require_count(value, member);
            if (number > INT32_MAX) refuse_region("'device_id' is no number of a GPU");
            device_id = static_cast<std::int64_t>(number);
        } else {
            refuse_key(member, "raw_handle, device_id, byte_size");
        }
    }
    if (!handle) refuse_missing("raw_handle");
    if (!device_id) refuse_missing("device_id");
    if (!bytes) refuse_missing("byte_size");
    regions.add(name, *device_id, *handle, *bytes);
}

}  // namespace

json regions_answer(const route& to, const std::string& body, const http_options& options) {
    shared_regions& regions = require_regions(options, to.regions);
    const std::string name(to.model);
    if (to.to == endpoint::regions_status) return states_of(regions, to.regions, name);
    const json asked = object_of(body);
    if (to.to == endpoint::regions_register) {
        if (to.regions == region_kind::system)
            add_system_region(name, asked, regions);
        else
            add_cuda_region(name, asked, regions);
        return json::object();
    }
    if (!asked.empty()) refuse_region("the body has a key; it needs none");
    if (name.empty())
        regions.remove_all(to.regions);
    else
        regions.remove(to.regions, name);
    return json::object();
}

}  // namespace sluice::serve
