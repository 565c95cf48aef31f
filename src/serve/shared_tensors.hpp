// SPDX-License-Identifier: Apache-2.0
// The tensors of one request that are in memory which its client shares with the server, whatever protocol the request
// comes by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "serve/charged_memory.hpp"
#include "sluice/serve/request_budget.hpp"
#include "sluice/serve/shared_regions.hpp"

namespace sluice::serve {

inline constexpr const char* shared_memory_parameters =
    "shared_memory_region, shared_memory_byte_size, shared_memory_offset";
inline constexpr const char* why_no_shared_memory =
    "this server shares no memory with its clients; `sluice serve --shared-memory` does";
inline constexpr const char* why_no_cuda_memory =
    "this server opens no memory of GPUs for its clients; `sluice serve --cuda-shared-memory` does";

// What the parameters of a tensor say.
struct region_parameters {
    std::optional<std::string> region;
    std::optional<std::uint64_t> bytes, offset;

    bool is_empty() const noexcept { return !region && !bytes && !offset; }
};

// Where an output is to be written. Without a region: into the answer.
struct output_place {
    std::shared_ptr<const shared_region> region;
    std::uint64_t offset = 0, bytes = 0;

    // Throws refusal (bad_request), also for an output that is longer than `bytes`; `where`: "output 'y'".
    void write(std::span<const std::byte> from, const std::string& where) const;
};

// What a front end lends to the requests that it reads. Without regions it shares no memory.
struct shared_memory_access {
    std::shared_ptr<const shared_regions> regions;
    std::shared_ptr<request_budget> budget;
};

class shared_tensors {
public:
    // A copy of the input, until clear(). Throws refusal: bad_request, and unavailable where the memory for requests is
    // in use. `where`: "input 'x'".
    std::span<const std::byte> read(const shared_memory_access& from, const region_parameters& parameters,
                                    const std::string& where);

    void clear() noexcept { memory_.clear(); }

private:
    charged_memory memory_;
};

// Throws refusal (bad_request).
output_place find_output_place(const shared_memory_access& from, const region_parameters& parameters,
                               const std::string& where);

}  // namespace sluice::serve
