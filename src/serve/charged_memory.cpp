// SPDX-License-Identifier: Apache-2.0
#include "serve/charged_memory.hpp"

#include <utility>

#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

std::span<std::byte> charged_memory::add(const std::shared_ptr<request_budget>& budget, std::size_t bytes) {
    if (budget) {
        if (!budget->take(bytes)) throw refusal::for_now("the memory for requests is in use");
        budget_ = budget;
        charged_ += bytes;
    }
    return blocks_.emplace_back(bytes);
}

void charged_memory::clear() noexcept {
    blocks_.clear();
    if (budget_) budget_->give(std::exchange(charged_, 0));
}

}  // namespace sluice::serve
