// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/file_descriptor.hpp"

#include <unistd.h>

namespace sluice::io {

// An error of close() has no receiver and changes nothing: the descriptor is closed either way, and data that must be
// safe on the disk was synchronised before.
void detail::descriptor_closer::operator()(descriptor_handle descriptor) const noexcept { ::close(descriptor.value); }

}  // namespace sluice::io
