// SPDX-License-Identifier: Apache-2.0
// charged_memory: memory of a request that is not in its message, counted with the memory for requests.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sluice/serve/request_budget.hpp"

namespace sluice::serve {

class charged_memory {
public:
    charged_memory() = default;
    charged_memory(const charged_memory&) = delete;  // inputs are in it
    charged_memory& operator=(const charged_memory&) = delete;
    ~charged_memory() { clear(); }

    // Until clear(). Throws refusal (unavailable) where the memory for requests is in use. `budget` may be empty:
    // nothing counts.
    std::span<std::byte> add(const std::shared_ptr<request_budget>& budget, std::size_t bytes);
    void clear() noexcept;

private:
    std::vector<std::vector<std::byte>> blocks_;
    std::shared_ptr<request_budget> budget_;
    std::size_t charged_ = 0;
};

}  // namespace sluice::serve
