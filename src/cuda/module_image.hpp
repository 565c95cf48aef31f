// SPDX-License-Identifier: Apache-2.0
// The bytes of a GPU module, checked before the driver reads them: the driver receives no length and would read past
// the end of a file that was cut.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sluice/base/error.hpp"

namespace sluice::cuda {

enum class image_kind : unsigned char { ptx, cubin, fatbin };

struct module_image {
    image_kind kind = image_kind::ptx;
    std::vector<std::byte> bytes;  // PTX ends with a zero
    // Of a cubin: 90 for sm_90; 0 when its header does not say it in a known form.
    int compute_capability = 0;
};

// Copies the bytes. Throws errc::bad_file, with this context, when they are no PTX, cubin or fatbin, or are cut.
module_image read_image(std::span<const std::byte> bytes, const error_context& context);

}  // namespace sluice::cuda
