// SPDX-License-Identifier: Apache-2.0
// Which endpoint a request is for.
#pragma once

#include <boost/beast/http/verb.hpp>
#include <cstddef>
#include <optional>
#include <string_view>

#include "sluice/serve/shared_region.hpp"

namespace sluice::serve {

enum class endpoint {
    none,  // no such path
    page,
    metrics,
    openapi,
    timeline,          // of the last requests, as JSON
    timeline_picture,  // as SVG
    server_metadata,
    server_live,
    server_ready,
    all_statistics,
    repository_index,
    repository_load,
    repository_unload,
    regions_status,  // of shared memory of the kind `regions`; `model` is the region's name; empty: all
    regions_register,
    regions_unregister,
    model_metadata,
    model_configuration,
    model_ready,
    model_statistics,
    infer,
};

struct route {
    endpoint to = endpoint::none;
    std::string_view model = {};  // its name, in the target; or a region's
    std::optional<std::size_t> version = {};
    region_kind regions = region_kind::system;
};

// The target without its query. Names of models need no decoding: a target with '%' is no path of ours.
route find_route(std::string_view target) noexcept;

// "GET, HEAD" or "POST".
std::string_view methods_of(endpoint to) noexcept;
bool is_allowed(endpoint to, boost::beast::http::verb method) noexcept;

}  // namespace sluice::serve
