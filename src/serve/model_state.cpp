// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/model_state.hpp"

#include <utility>

#include "sluice/base/error.hpp"

namespace sluice::serve {

std::string_view index_word(model_state state) noexcept {
    switch (state) {
        case model_state::loading: return "LOADING";
        case model_state::ready: return "READY";
        case model_state::unloading: return "UNLOADING";
        case model_state::unloaded:
        case model_state::failed: break;
    }
    return "UNAVAILABLE";
}

std::string_view name_of(model_state state) noexcept {
    switch (state) {
        case model_state::unloaded: return "unloaded";
        case model_state::loading: return "loading";
        case model_state::ready: return "ready";
        case model_state::failed: return "failed";
        case model_state::unloading: break;
    }
    return "unloading";
}

bool may_become(model_state from, model_state to) noexcept {
    using enum model_state;
    switch (from) {
        case unloaded: return to == loading;
        case loading: return to == ready || to == failed || to == unloaded;
        case ready: return to == failed || to == unloading;
        case failed: return to == loading || to == unloading;
        case unloading: return to == unloaded;
    }
    return false;
}

void version_state::become(model_state next, std::string reason) {
    if (!may_become(now_, next)) {
        throw error(errc::invalid_argument, "a version of a model that is " + std::string(name_of(now_)) +
                                                " cannot become " + std::string(name_of(next)));
    }
    now_ = next;
    reason_ = std::move(reason);
}

}  // namespace sluice::serve
