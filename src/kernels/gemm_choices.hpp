// The ways that were measured to be fastest on one GPU; kept with its device_context.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <map>
#include <optional>
#include <shared_mutex>

#include "kernels/gemm_bodies.hpp"
#include "kernels/gemm_table.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::kernels {

inline constexpr unsigned char most_library_proposals = 8;

class gemm_choices {
public:
    // What the table on disk says.
    explicit gemm_choices(cuda::device_context& of);

    // Nothing where nothing was measured.
    std::optional<gemm_way> find(const gemm_problem& problem) const;
    void add(const gemm_problem& problem, const gemm_way& way);

    const gemm_table_origin& origin() const noexcept { return origin_; }

private:
    gemm_table_origin origin_;
    mutable std::shared_mutex mutex_;
    std::map<gemm_problem, gemm_way> ways_;
};

}  // namespace sluice::kernels
