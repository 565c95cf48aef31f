// SPDX-License-Identifier: Apache-2.0
#include "serve/http/routes.hpp"

#include <array>
#include <charconv>

#include "sluice/serve/model_files.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t most_segments = 6;

struct segments {
    std::array<std::string_view, most_segments> at;
    std::size_t count = 0;
    bool is_too_long = false;
};

// "/v2/models/digits" has three. One '/' at the end is accepted.
segments split(std::string_view path) noexcept {
    segments found;
    if (path.empty() || path.front() != '/') return {{}, 0, true};
    path.remove_prefix(1);
    if (!path.empty() && path.back() == '/') path.remove_suffix(1);
    while (!path.empty()) {
        if (found.count == most_segments) return {{}, 0, true};
        const std::size_t end = path.find('/');
        found.at[found.count++] = path.substr(0, end);
        if (end == std::string_view::npos) break;
        path.remove_prefix(end + 1);
        if (path.empty()) return {{}, 0, true};
    }
    return found;
}

std::optional<std::size_t> number(std::string_view text) noexcept {
    int value = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (wrong != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
    return static_cast<std::size_t>(value);
}

route of_server(const segments& path) noexcept {
    if (path.count == 1) return {endpoint::server_metadata};
    if (path.count == 2 && path.at[1] == "openapi.json") return {endpoint::openapi};
    if (path.count == 2 && path.at[1] == "timeline") return {endpoint::timeline};
    if (path.count == 2 && path.at[1] == "timeline.svg") return {endpoint::timeline_picture};
    if (path.count != 3) return {};
    if (path.at[1] == "health" && path.at[2] == "live") return {endpoint::server_live};
    if (path.at[1] == "health" && path.at[2] == "ready") return {endpoint::server_ready};
    if (path.at[1] == "models" && path.at[2] == "stats") return {endpoint::all_statistics};
    if (path.at[1] == "repository" && path.at[2] == "index") return {endpoint::repository_index};
    return {};
}

route of_repository(const segments& path) noexcept {
    if (path.count != 5 || path.at[2] != "models" || !is_model_name(path.at[3])) return {};
    if (path.at[4] == "load") return {endpoint::repository_load, path.at[3]};
    if (path.at[4] == "unload") return {endpoint::repository_unload, path.at[3]};
    return {};
}

endpoint endpoint_of_regions(std::string_view verb) noexcept {
    if (verb == "status") return endpoint::regions_status;
    if (verb == "register") return endpoint::regions_register;
    if (verb == "unregister") return endpoint::regions_unregister;
    return endpoint::none;
}

route of_shared_memory(const segments& path, region_kind kind) noexcept {
    const bool names_one = path.count == 5 && path.at[2] == "region";
    if (!names_one && path.count != 3) return {};
    const endpoint to = endpoint_of_regions(path.at[path.count - 1]);
    if (to == endpoint::none || (!names_one && to == endpoint::regions_register)) return {};
    return {to, names_one ? path.at[3] : std::string_view(), {}, kind};
}

route of_model(const segments& path) noexcept {
    if (path.count < 3 || !is_model_name(path.at[2])) return {};
    route found{endpoint::none, path.at[2]};
    std::size_t at = 3;
    if (path.count >= 5 && path.at[3] == "versions") {
        found.version = number(path.at[4]);
        if (!found.version) return {};
        at = 5;
    }
    if (path.count == at) found.to = endpoint::model_metadata;
    if (path.count != at + 1) return found;
    if (path.at[at] == "infer") found.to = endpoint::infer;
    if (path.at[at] == "config") found.to = endpoint::model_configuration;
    if (path.at[at] == "ready") found.to = endpoint::model_ready;
    if (path.at[at] == "stats") found.to = endpoint::model_statistics;
    return found;
}

}  // namespace

route find_route(std::string_view target) noexcept {
    for (const std::string_view scheme : {"http://", "https://"}) {  // as a proxy writes it
        if (!target.starts_with(scheme)) continue;
        const std::size_t path_begin = target.find('/', scheme.size());
        target = path_begin == std::string_view::npos ? "/" : target.substr(path_begin);
    }
    const segments path = split(target.substr(0, target.find('?')));
    if (path.is_too_long) return {};
    if (path.count == 0) return {endpoint::page};
    if (path.count == 1 && path.at[0] == "metrics") return {endpoint::metrics};
    if (path.at[0] != "v2") return {};
    const route general = of_server(path);
    if (general.to != endpoint::none || path.count < 3) return general;
    if (path.at[1] == "repository") return of_repository(path);
    if (path.at[1] == "systemsharedmemory") return of_shared_memory(path, region_kind::system);
    if (path.at[1] == "cudasharedmemory") return of_shared_memory(path, region_kind::cuda);
    return path.at[1] == "models" ? of_model(path) : route{};
}

std::string_view methods_of(endpoint to) noexcept {
    switch (to) {
        case endpoint::repository_index:
        case endpoint::repository_load:
        case endpoint::repository_unload:
        case endpoint::regions_register:
        case endpoint::regions_unregister:
        case endpoint::infer: return "POST";
        default: return "GET, HEAD";
    }
}

bool is_allowed(endpoint to, boost::beast::http::verb method) noexcept {
    using boost::beast::http::verb;
    if (methods_of(to) == "POST") return method == verb::post;
    return method == verb::get || method == verb::head;
}

}  // namespace sluice::serve
