// SPDX-License-Identifier: Apache-2.0
// The ways that were measured to be fastest on one GPU; kept with its device_context.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <map>
#include <optional>
#include <shared_mutex>

#include "kernels/gemm/gemm_dispatch.hpp"
#include "kernels/gemm/gemm_table.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::kernels {

inline constexpr unsigned char most_library_proposals = 8;

class gemm_algorithms {
public:
    // What the table on disk says.
    explicit gemm_algorithms(cuda::device_context& of);

    // Nothing where nothing was measured.
    std::optional<gemm_algorithm> find(const gemm_problem& problem) const;
    void add(const gemm_problem& problem, const gemm_algorithm& way);

    const gemm_table_origin& origin() const noexcept { return origin_; }

private:
    gemm_table_origin origin_;
    mutable std::shared_mutex mutex_;
    std::map<gemm_problem, gemm_algorithm> ways_;
};

}  // namespace sluice::kernels
