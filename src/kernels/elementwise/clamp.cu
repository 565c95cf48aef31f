// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/clamp.hpp"

#include "sluice/kernels/whole_tensor.hpp"

namespace sluice {
namespace {

struct clamped {
    float low, high;
    SLUICE_KERNEL float operator()(float x) const { return x < low ? low : x > high ? high : x; }
};

}  // namespace

void detail::clamp(stream on, tensor<float>& x, const source_location& location, float low, float high) {
    if (!(low <= high)) throw error(errc::invalid_argument, "low must be at most high", {"clamp", {}, location});
    kernels::update_elements(on, x, "clamp", location, clamped{low, high});
}

}  // namespace sluice
