// SPDX-License-Identifier: Apache-2.0
// In place of jpeg_decoder.cpp where libjpeg is not found.
#include "image_decoders.hpp"
#include "sluice/base/error.hpp"

namespace sluice::io {

bool jpeg_supported() noexcept { return false; }

image decode_jpeg(std::span<const std::byte>, const std::filesystem::path& path, image_limits) {
    throw error(errc::unsupported, path.string() +
                                       ": this Sluice was built without libjpeg, which JPEG files need; "
                                       "install libjpeg-dev and build again");
}

}  // namespace sluice::io
