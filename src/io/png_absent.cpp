// SPDX-License-Identifier: Apache-2.0
// In place of png_decoder.cpp where libpng is not found.
#include "image_decoders.hpp"
#include "sluice/base/error.hpp"

namespace sluice::io {

bool png_supported() noexcept { return false; }

image decode_png(std::span<const std::byte>, const std::filesystem::path& path, image_limits) {
    throw error(errc::unsupported, path.string() +
                                       ": this Sluice was built without libpng, which PNG files need; install "
                                       "libpng-dev and build again");
}

}  // namespace sluice::io
