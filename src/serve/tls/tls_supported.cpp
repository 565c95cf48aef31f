// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/tls.hpp"

namespace sluice::serve {

bool tls_supported() noexcept { return true; }
std::string why_no_tls() { return {}; }

}  // namespace sluice::serve
