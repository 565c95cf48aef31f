// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/block_cluster.hpp"

#include <string>

#include "sluice/base/error.hpp"

namespace sluice::detail {

void throw_inside_blocks(const char* call) {
    throw error(errc::invalid_argument, std::string(call) +
                                            "() of a grid or a cluster was called inside for_each_block; it belongs "
                                            "between two of them");
}

}  // namespace sluice::detail
